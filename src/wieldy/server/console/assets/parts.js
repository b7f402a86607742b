// Small parts that pages are made of.

import { clear, h, outside, escapeText, show } from "./dom.js";
import { hasWord, languageTag, t } from "./words.js";

/** The state of a call, or another short word, as a coloured label. */
export function badge(state, kind) {
  const word = hasWord(`state.${state}`) ? t(`state.${state}`) : escapeText(state);
  return h("span", { class: ["badge", `badge-${kind || state}`.replace(/[^\w-]/g, "")] }, word);
}

const STEPS = [
  [60, "second", 1],
  [3600, "minute", 60],
  [86_400, "hour", 3600],
  [Infinity, "day", 86_400],
];

function sayMoment(date) {
  const seconds = (date.getTime() - Date.now()) / 1000;
  if (Math.abs(seconds) < 5) return t("time.now");
  const [, unit, size] = STEPS.find(([most]) => Math.abs(seconds) < most);
  if (unit === "day" && Math.abs(seconds) > 30 * 86_400) return date.toLocaleDateString(languageTag());
  return new Intl.RelativeTimeFormat(languageTag(), { numeric: "always", style: "short" }).format(Math.round(seconds / size), unit);
}

/** A moment as "3 min. ago", with the full time as its title. It is kept up to date. */
export function moment(iso) {
  if (!iso) return h("span.faint", "–");
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return outside(iso);
  return h("time", { datetime: date.toISOString(), title: fullTime(iso), class: "moment" }, sayMoment(date));
}

/** A moment in full, in the time zone of the person. */
export function fullTime(iso) {
  return new Date(iso).toLocaleString(languageTag(), { dateStyle: "medium", timeStyle: "medium" });
}

setInterval(() => {
  for (const each of document.querySelectorAll("time.moment")) show(each, sayMoment(new Date(each.dateTime)));
}, 15_000);

/** Seconds as a short text. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toPrecision(seconds < 0.1 ? 2 : 3)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** A number with separators. */
export const amount = (number) => new Intl.NumberFormat(languageTag()).format(number);

const PIECE = 20_000;

/** A text with its line breaks, in pieces: what is long is shown further when asked for. */
export function codeText(text, { piece = PIECE, label } = {}) {
  const whole = String(text);
  const shown = h("code", { dir: "ltr" });
  const box = h("pre.code", { tabindex: "0", role: "group", "aria-label": label || t("code.text") }, h("bdi", shown));
  const outer = h("div.code-box", box);
  let end = 0;
  const grow = () => {
    let next = Math.min(whole.length, end + piece);
    if (next < whole.length && /[\ud800-\udbff]/.test(whole[next - 1])) next += 1;
    shown.append(escapeText(whole.slice(end, next)));
    end = next;
    if (end >= whole.length) more.remove();
    else show(more, t("more.characters", { count: amount(whole.length - end) }));
  };
  const more = h("button", { type: "button", class: "link more", on: { click: grow } });
  if (whole.length > piece) outer.append(more);
  grow();
  return outer;
}

/** What went wrong, and what to do about it. */
export function problemBox(problem) {
  const known = hasWord(`problem.${problem.code}`);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", known ? t(`problem.${problem.code}`, spellDetails(problem.details)) : outside(problem.message || String(problem), { longest: 2000 })),
    !known && problem.hint ? h("p.faint", outside(problem.hint, { longest: 2000 })) : null,
  );
}

function spellDetails(details = {}) {
  const texts = Object.entries(details || {}).map(([name, value]) => [name, escapeText(String(value ?? "").slice(0, 300))]);
  const found = Object.fromEntries(texts);
  if (found.verdict && hasWord(`state.${found.verdict}`)) found.verdict = t(`state.${found.verdict}`);
  return { ...found, by: found.by || t("who.somebody") };
}

/** A button that asks for the next page, or nothing after the last one. */
export function pager({ next, onNext }) {
  if (!next) return null;
  const button = h("button", { type: "button", class: "button", on: { click: () => { button.disabled = true; onNext(next); } } }, t("more.page"));
  return h("div.pager", button);
}

/** A field to search with. `onSearch` gets the text when the person stops typing. */
export function searchBox({ value = "", label, onSearch, delay = 250 }) {
  let timer;
  const input = h("input", { type: "search", value, placeholder: label, "aria-label": label, maxlength: "1000" });
  const fire = () => {
    clearTimeout(timer);
    onSearch(input.value.trim());
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(fire, delay);
  });
  return h("form.search", { role: "search", on: { submit: (event) => { event.preventDefault(); fire(); } } }, input);
}

/** What is said where a list is empty. */
export function emptyState(text, ...more) {
  return h("div.empty", h("p", text), ...more);
}

/** A field with its label. */
export function field(label, control, { hint, wide } = {}) {
  control.id ||= newId("field");
  return h("div", { class: ["field", wide && "wide"] }, h("label", { for: control.id }, label), control, hint ? h("p.faint.hint", hint) : null);
}

let ids = 0;

/** A name that no other element has. */
export const newId = (stem) => `${stem}-${++ids}`;

/** A choice between values; `options` are pairs of a value and its text. */
export function choice(options, value, onChange) {
  const select = h("select", { on: onChange ? { change: () => onChange(select.value) } : {} }, options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)));
  return select;
}

/** A button. `kind` is primary, danger, quiet or nothing. */
export function button(text, onClick, { kind, keys, ...attributes } = {}) {
  const keyboard = keys ? h("kbd", { "aria-hidden": "true" }, keys) : null;
  return h("button", { type: "button", class: ["button", kind], "aria-keyshortcuts": keys, on: onClick ? { click: onClick } : {}, ...attributes }, text, keyboard);
}

/**
 * Open a dialog. `actions` are {text, kind, run}; `run` may be async, and the dialog stays open with
 * the problem if it fails or gives false. The focus goes back to where it was.
 */
export function dialog(title, content, actions = []) {
  const heading = h("h2", { id: newId("dialog") }, title);
  const trouble = h("div");
  const before = document.activeElement;
  const box = h("dialog", { "aria-labelledby": heading.id, class: "dialog" });
  const close = () => box.close();
  const perform = async (action, pressed) => {
    clear(trouble);
    pressed.disabled = true;
    try {
      if ((await action.run?.()) !== false) close();
    } catch (problem) {
      show(trouble, problemBox(problem));
    } finally {
      pressed.disabled = false;
    }
  };
  const buttons = actions.map((action, index) => {
    const made = h("button", { type: index === 0 ? "submit" : "button", class: ["button", action.kind] }, action.text);
    if (index > 0) made.addEventListener("click", () => perform(action, made));
    return made;
  });
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); if (actions.length) perform(actions[0], buttons[0]); } } });
  form.append(heading, h("div.dialog-body", content), trouble, h("div.actions", buttons, button(actions.length ? t("cancel") : t("close"), close, { kind: "quiet" })));
  box.append(form);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  box.addEventListener("close", () => {
    box.remove();
    if (before && before.isConnected) before.focus();
  });
  document.body.append(box);
  box.showModal();
  return { element: box, close };
}

let region;

/** Have a screen reader say something. */
export function announce(text) {
  region ||= document.getElementById("announcer");
  if (!region) return;
  // The same text twice is said twice.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

/** Names and their values, as a list in two columns. What is null is left out. */
export function facts(...pairs) {
  const list = h("dl.facts");
  for (const pair of pairs) {
    if (!pair || pair[1] === null || pair[1] === undefined || pair[1] === "") continue;
    list.append(h("dt", pair[0]), h("dd", pair[1]));
  }
  return list;
}
