// What the console says, in the language of the person.

import en from "./words_en.js";
import zh from "./words_zh.js";

const LANGUAGES = { en, zh };
let language = remembered() || (navigator.languages || []).map((each) => each.slice(0, 2)).find((each) => each in LANGUAGES) || "en";

function remembered() {
  const found = localStorage.getItem("wieldy.language");
  return found in LANGUAGES ? found : null;
}

/** The current language. */
export const currentLanguage = () => language;

/** Say everything in this language from now on, also after a reload. */
export function setLanguage(name) {
  language = name in LANGUAGES ? name : "en";
  localStorage.setItem("wieldy.language", language);
  document.documentElement.lang = languageTag();
  dispatchEvent(new Event("wieldy-language"));
}

/** The language as HTML and Intl name it. */
export const languageTag = () => (language === "zh" ? "zh-Hans" : "en");

/**
 * A text by its name. `{name}` in it is replaced by that parameter. Where a text depends on a number
 * it is {one: …, other: …}, and `count` decides.
 */
export function t(name, params = {}) {
  let found = LANGUAGES[language][name] ?? en[name] ?? name;
  if (typeof found === "object") {
    const form = new Intl.PluralRules(languageTag()).select(params.count ?? 0);
    found = found[form] ?? found.other;
  }
  return found.replace(/\{(\w+)\}/g, (whole, key) => (key in params ? String(params[key] ?? "") : whole));
}

/** Whether there is a text of this name. */
export const hasWord = (name) => name in en;
