// Keys: those of the page that is shown, and those that hold everywhere.

import { h } from "./dom.js";
import { dialog } from "./parts.js";
import { t } from "./words.js";

let own = [];

/**
 * Set the keys of a page until the function that this gives is called. Each is {key, text, run}; `run`
 * gets the event. Keys do nothing while somebody types or a dialog is open.
 */
export function setKeys(keys) {
  own = keys;
  return () => {
    if (own === keys) own = [];
  };
}

function isTyping(target) {
  return target instanceof Element && target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

const PLACES = [
  ["i", "inbox"],
  ["c", "calls"],
  ["t", "tools"],
  ["s", "servers"],
  ["u", "runs"],
  ["r", "rules"],
  ["a", "artifacts"],
  ["p", "plots"],
];
const LAPSE = 1500;
let pressedG = -LAPSE;

export function startKeys({ go }) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (event.repeat && !["j", "k", "ArrowDown", "ArrowUp"].includes(event.key)) return;
    if (/^(Shift|CapsLock|AltGraph)$/.test(event.key)) return;
    const isSecond = event.timeStamp - pressedG < LAPSE;
    pressedG = event.key === "g" ? event.timeStamp : -LAPSE;
    // A key after g never reaches the page, where it may decide on something.
    if (isSecond || event.key === "g") {
      event.preventDefault();
      const place = isSecond && PLACES.find(([key]) => key === event.key);
      if (place) go(`/${place[1]}`);
      return;
    }
    const found = event.key === "?" ? { run: showHelp } : own.find((each) => each.key === event.key);
    if (!found || found.run(event) === false) return;
    event.preventDefault();
  });
}

export function showHelp() {
  const line = ([keys, text]) => h("div", h("dt", keys.map((key) => h("kbd", key))), h("dd", text));
  const pageKeys = own.map(({ key, text }) => [[key], text]);
  const everywhere = [...PLACES.map(([key, name]) => [["g", key], t(`label.${name}`)]), [["?"], t("keys.help")], [["Esc"], t("keys.close")]];
  const parts = [h("h3", t("keys.everywhere")), h("dl.keys", everywhere.map(line))];
  if (pageKeys.length) parts.unshift(h("h3", t("keys.page")), h("dl.keys", pageKeys.map(line)));
  dialog(t("app.help"), parts);
}
