// Come in with a one-time link. Its key is in the fragment of the address, which is never sent.

import { get, submit } from "./api.js";
import { h, shortText, show } from "./dom.js";
import { button, choice, problemBox } from "./parts.js";
import { currentLanguage, languageChoices, setLanguage, t } from "./words.js";

/**
 * Show how to sign in. A key is used by itself only if nobody is signed in: anybody can send a link that signs
 * in as somebody else.
 */
export async function showSignIn(root, onSignedIn) {
  const key = location.pathname === "/sign-in" ? location.hash.slice(1) : "";
  // The key does not stay in the history.
  if (key) history.replaceState(null, "", "/sign-in");
  const trouble = h("div");
  const home = button(t("app.to_inbox"), () => location.assign("/inbox"));
  let me = null;
  const enter = button(t("sign_in.title"), async () => {
    enter.disabled = true;
    show(trouble);
    try {
      await submit("/sign-in", { key });
    } catch (problem) {
      enter.disabled = problem.status !== 0;
      show(trouble, problemBox(problem), problem.status === 0 || me ? null : explain());
      return;
    }
    if (location.pathname === "/sign-in") history.replaceState(null, "", "/inbox");
    onSignedIn();
  }, { kind: "primary" });
  const language = choice(languageChoices(), currentLanguage(), setLanguage);
  language.setAttribute("aria-label", t("label.language"));
  const title = h("h1", { tabindex: "-1" }, t("sign_in.title"));
  const parts = h("div.sign-in-how");
  show(root, h("main.bare.card.sign-in", title, parts, trouble, h("div.sign-in-end", language)));
  title.focus();
  let isKnown = true;
  if (location.pathname === "/sign-in") me = await get("/me").catch(({ status }) => ((isKnown = status === 401), null));
  // Where no token is needed, anybody reads, and still nobody is signed in.
  if (me && me.name === null) me = null;
  const name = me && t("sign_in.is_in", { name: shortText(me.name) });
  if (me) show(parts, h("p", name, " ", key && t("sign_in.instead")), h("div.actions", key && enter, home));
  else show(parts, key ? [h("p", t("sign_in.ready")), h("div.actions", enter)] : explain());
  if (me) home.focus();
  else if (key) enter.focus();
  if (key && !me && isKnown) enter.click();
}

function explain() {
  return h("div.sign-in-how", h("p", t("sign_in.how")), h("pre.code", h("code", "wieldy token link NAME")), h("p.faint", t("sign_in.once")));
}
