// Come in with a one-time link. The key is in the fragment of the address, which is never sent or logged.

import { submit } from "./api.js";
import { h, show } from "./dom.js";
import { button, choice, problemBox } from "./parts.js";
import { currentLanguage, languageChoices, setLanguage, t } from "./words.js";

/** Show how to sign in. With a key in the address, a button uses it. */
export function showSignIn(root, onSignedIn) {
  const key = location.pathname === "/sign-in" ? location.hash.slice(1) : "";
  // The key does not stay in the history.
  if (key) history.replaceState(null, "", "/sign-in");
  const trouble = h("div");
  const enter = button(t("sign_in.title"), async () => {
    enter.disabled = true;
    show(trouble);
    try {
      await submit("/sign-in", { key });
    } catch (problem) {
      enter.disabled = problem.status !== 0;
      show(trouble, problemBox(problem), problem.status === 0 ? null : explain());
      return;
    }
    if (location.pathname === "/sign-in") history.replaceState(null, "", "/inbox");
    onSignedIn();
  }, { kind: "primary" });
  const language = choice(languageChoices(), currentLanguage(), setLanguage);
  language.setAttribute("aria-label", t("label.language"));
  const title = h("h1", { tabindex: "-1" }, t("sign_in.title"));
  const parts = key ? [h("p", t("sign_in.ready")), h("div.actions", enter)] : [explain()];
  show(root, h("main.bare.card.sign-in", title, parts, trouble, h("div.sign-in-end", language)));
  (key ? enter : title).focus();
  if (key) enter.click();
}

function explain() {
  return h("div.sign-in-how", h("p", t("sign_in.how")), h("pre.code", h("code", "wieldy token link NAME")), h("p.faint", t("sign_in.once")));
}
