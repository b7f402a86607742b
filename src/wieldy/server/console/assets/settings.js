// What a person may choose; the browser keeps it.

import { h } from "./dom.js";
import { canNotify, playSound, wishesOf, setWish } from "./notices.js";
import { choice, dialog, field } from "./parts.js";
import { currentLanguage, languageChoices, setLanguage, t } from "./words.js";

export function showSettings() {
  const language = choice(languageChoices(), currentLanguage(), (value) => {
    opened.close();
    setLanguage(value);
  });
  const themes = ["auto", "light", "dark"].map((each) => [each, t(`theme.${each}`)]);
  const theme = choice(themes, localStorage.getItem("wieldy.theme") || "auto", setTheme);
  const refused = h("p.faint", { hidden: true }, t("notify.refused"));
  const wishes = wishesOf();
  const sound = check(t("notify.sound"), wishes.sound, (on) => {
    setWish("sound", on);
    if (on) playSound();
  });
  const desktop = check(t("notify.desktop"), wishes.desktop, async (on, box) => {
    const allowed = !on || (await canNotify());
    refused.hidden = allowed;
    box.checked = on && allowed;
    setWish("desktop", on && allowed);
  });
  const opened = dialog(t("app.settings"), [field(t("label.language"), language), field(t("label.theme"), theme), sound, desktop, refused]);
}

function setTheme(name) {
  if (name === "auto") {
    localStorage.removeItem("wieldy.theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("wieldy.theme", name);
    document.documentElement.dataset.theme = name;
  }
}

function check(text, checked, onChange) {
  const box = h("input", { type: "checkbox", checked, on: { change: () => onChange(box.checked, box) } });
  return h("label.check", box, text);
}
