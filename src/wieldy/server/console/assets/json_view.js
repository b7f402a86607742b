// JSON as a folded tree of any size: a part is made when it is opened, and what is long comes in pieces.

import { isDigits, writeJson } from "./api.js";
import { h, outside, escapeText, cutText } from "./dom.js";
import { addText, amount, growing } from "./parts.js";
import { t } from "./words.js";

const ITEMS = 100;
const TEXT = 600;
const MOST_OPEN = 300;

export function jsonView(value, { depth = 2, label } = {}) {
  const budget = { left: MOST_OPEN };
  return h("div.json", { role: "group", "aria-label": label || "JSON" }, makeNode(null, value, depth, budget));
}

export function jsonLine(value, longest = 120) {
  return outside(beginning(value, longest), { class: "json-line", longest });
}

// The beginning of the JSON text of a value, without writing all of it.
function beginning(value, most) {
  if (typeof value === "string") return writeJson(cutText(value, most + 1));
  if (value === null || typeof value !== "object" || isDigits(value)) return writeJson(value);
  const list = Array.isArray(value);
  let text = list ? "[" : "{";
  let first = true;
  for (const key in value) {
    if (!Object.hasOwn(value, key)) continue;
    if (text.length > most) return text;
    text += first ? "" : ", ";
    text += list ? "" : `${cutText(key, most)}: `;
    text += beginning(value[key], most - text.length);
    first = false;
  }
  return text + (list ? "]" : "}");
}

function makeNode(key, value, depth, budget) {
  if (value !== null && typeof value === "object" && !isDigits(value)) return makeBranch(key, value, depth, budget);
  return h("div.json-leaf", makeKey(key), makeScalar(value));
}

function makeKey(key) {
  if (key === null) return null;
  return [outside(key, { class: typeof key === "number" ? "json-index" : "json-key", longest: 200 }), ": "];
}

function makeScalar(value) {
  if (typeof value === "string") return makeText(value);
  const kind = value === null ? "null" : isDigits(value) ? "number" : typeof value;
  return h("span", { class: `json-${kind}` }, escapeText(isDigits(value) ? value.rawJSON : String(value)));
}

function makeText(text) {
  const shown = h("bdi.json-string");
  const box = h("span.json-quoted", shown);
  growing(box, "characters", text.length, (from) => addText(shown, text, from, from ? 20_000 : TEXT));
  return box;
}

function makeBranch(key, value, depth, budget) {
  const list = Array.isArray(value);
  const keys = list ? null : Object.keys(value);
  const size = list ? value.length : keys.length;
  const brackets = list ? ["[", "]"] : ["{", "}"];
  if (size === 0) return h("div.json-leaf", makeKey(key), h("span.json-null", brackets.join("")));
  const count = h("span.faint", `${brackets[0]} ${t(list ? "json.items" : "json.fields", { count: size, amount: amount(size) })} ${brackets[1]}`);
  const inner = h("div.json-inner");
  const branch = h("details.json-branch", h("summary", makeKey(key), count), inner);
  const add = (from) => {
    const end = Math.min(size, from + ITEMS);
    for (let at = from; at < end; at += 1) {
      const name = list ? at : keys[at];
      inner.append(makeNode(name, value[name], depth - 1, budget));
    }
    return end;
  };
  const opened = () => branch.open && !inner.hasChildNodes() && growing(branch, "items", size, add);
  branch.addEventListener("toggle", opened);
  budget.left -= Math.min(size, ITEMS);
  branch.open = depth > 0 && budget.left > 0;
  opened();
  return branch;
}
