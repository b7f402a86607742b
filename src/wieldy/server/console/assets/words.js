// What the console says, in the language of the person.

import pages from "./words_pages.js";
import shared from "./words_shared.js";

const WORDS = { ...shared, ...pages };
const NAMES = { en: "English", zh: "中文" };
const LANGUAGES = Object.keys(NAMES);
const wished = [localStorage.getItem("wieldy.language"), ...(navigator.languages || []).map((each) => each.slice(0, 2))];
let language = wished.find((each) => LANGUAGES.includes(each)) || "en";

export const currentLanguage = () => language;

export const languageChoices = () => Object.entries(NAMES);

/** Say everything in this language from now on, also after a reload. */
export function setLanguage(name) {
  language = name;
  localStorage.setItem("wieldy.language", language);
  document.documentElement.lang = languageTag();
  dispatchEvent(new Event("wieldy-language"));
}

export const languageTag = () => (language === "zh" ? "zh-Hans" : "en");

function findWord(name) {
  const [group, ...rest] = name.split(".");
  const key = rest.join(".");
  return Object.hasOwn(WORDS, group) && Object.hasOwn(WORDS[group], key) ? WORDS[group][key] : null;
}

export const hasWord = (name) => findWord(name) !== null;

/**
 * A text by its name. `{name}` in it is replaced by that parameter. Where a text depends on a number it is
 * written for one, a bar, and for others, and `count` decides.
 */
export function t(name, params = {}) {
  const found = findWord(name);
  if (!found) console.error(`There is no text ${name}.`);
  const [one, others = one] = (found?.[LANGUAGES.indexOf(language)] ?? name).split("|");
  return (params.count === 1 ? one : others).replace(/\{(\w+)\}/g, (whole, key) => (key in params ? String(params[key] ?? "") : whole));
}
