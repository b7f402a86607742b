// Small parts that pages are made of.

import { cutText, escapeText, h, longText, outside, show } from "./dom.js";
import { hasWord, languageTag, t } from "./words.js";

const TONES = {
  good: "ok allow run approved permission-auto lock-locked connected run-done",
  bad: "error denied deny timeout unknown permission-deny lock-changed disconnected run-crashed run-failed",
  wait: "pending ask expired interrupted permission-confirm lock-new run-interrupted",
  info: "started dry_run dry-run mode run-running",
};
const TONE_OF = new Map(Object.entries(TONES).flatMap(([tone, states]) => states.split(" ").map((state) => [state, tone])));

export const toneOf = (state) => TONE_OF.get(state) || "plain";

export function badge(state, word = hasWord(`state.${state}`) ? t(`state.${state}`) : escapeText(state)) {
  return h("span", { class: ["badge", toneOf(state)] }, word);
}

export const note = (...words) => h("p.note", words);

export function verdictLine({ decision, because }) {
  return [badge(decision, t(`tryout.${decision}`)), " ", longText(because)];
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

export function fullTime(iso) {
  return new Date(iso).toLocaleString(languageTag(), { dateStyle: "medium", timeStyle: "medium" });
}

setInterval(() => {
  for (const each of document.querySelectorAll("time.moment")) show(each, sayMoment(new Date(each.dateTime)));
}, 15_000);

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toPrecision(seconds < 0.1 ? 2 : 3)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function sayLength(seconds) {
  const [unit, size] = seconds > 86_400 ? ["day", 86_400] : ["hour", 3600];
  return new Intl.NumberFormat(languageTag(), { style: "unit", unit, unitDisplay: "long" }).format(seconds / size);
}

export const amount = (number) => new Intl.NumberFormat(languageTag()).format(number);

/**
 * Show something long piece by piece: `add(from)` appends a piece to the page and gives where the next one
 * begins. As long as there is more of the `size`, a button below the pieces in `box` asks for it; `unit` is
 * what is counted.
 */
export function growing(box, unit, size, add) {
  let end = 0;
  const grow = () => {
    end = add(end);
    if (end >= size) return more.remove();
    show(more, t(`more.${unit}`, { count: amount(size - end) }));
    return more.parentNode || box.append(more);
  };
  const more = button("", grow, { kind: "link more" });
  grow();
}

/** Append a piece of a long text, and give where the next one begins. */
export function addText(element, text, from, size) {
  const piece = cutText(text.slice(from), size);
  element.append(escapeText(piece));
  return from + (piece.length || size);
}

export const errorText = (text) => codeText(text, { label: t("label.error") });

/** A text with its line breaks; of a long one the next piece comes when asked for. */
export function codeText(text, { piece = 20_000, label = t("label.text") } = {}) {
  const whole = String(text);
  const shown = h("code", { dir: "ltr" });
  const box = h("pre.code", { tabindex: "0", role: "group", "aria-label": label }, h("bdi", shown));
  const outer = h("div.code-box", box);
  growing(outer, "characters", whole.length, (from) => addText(shown, whole, from, piece));
  return outer;
}

export function problemBox(problem) {
  const known = hasWord(`problem.${problem.code}`);
  return h(
    "div.problem",
    { role: "alert" },
    h("p", known ? t(`problem.${problem.code}`, spellDetails(problem.details)) : longText(problem.message || String(problem))),
    !known && problem.hint ? h("p.faint", longText(problem.hint)) : null,
  );
}

function spellDetails(details = {}) {
  const texts = Object.entries(details || {}).map(([name, value]) => [name, escapeText(String(value ?? "").slice(0, 300))]);
  const found = Object.fromEntries(texts);
  if (found.verdict && hasWord(`state.${found.verdict}`)) found.verdict = t(`state.${found.verdict}`);
  return { ...found, by: found.by || t("who.somebody") };
}

export function pager({ next, onNext }) {
  if (!next) return null;
  return h("div.pager", button(t("action.more"), () => onNext(next)));
}

export function emptyState(text, ...more) {
  return h("div.empty", h("p", text), ...more);
}

/** A box that is scrolled, also by keys. */
export const scrollBox = (label, ...content) => h("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, content);

export function field(label, control, { hint } = {}) {
  control.id ||= newId("field");
  return h("div.field", h("label", { for: control.id }, label), control, hint ? h("p.faint.hint", hint) : null);
}

export const textInput = (attributes = {}) => h("input", { type: "text", maxlength: "500", ...attributes });

let ids = 0;

export const newId = (stem) => `${stem}-${++ids}`;

/** A choice between values; `options` are pairs of a value and its text. */
export function choice(options, value, onChange) {
  const select = h("select", { on: onChange ? { change: () => onChange(select.value) } : {} }, options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)));
  return select;
}

/**
 * A button. `kind` is primary, danger, quiet or nothing. It can't be pressed again while what it started goes
 * on, and a problem is shown in the element `trouble`.
 */
export function button(text, onClick, { kind, keys, trouble, ...attributes } = {}) {
  const keyboard = keys ? h("kbd", { "aria-hidden": "true" }, keys) : null;
  const press = async (event) => {
    const work = onClick(event);
    if (!(work instanceof Promise)) return;
    made.disabled = true;
    try {
      await work;
    } catch (problem) {
      if (!trouble) throw problem;
      show(trouble, problemBox(problem));
    } finally {
      made.disabled = false;
    }
  };
  const made = h("button", { type: "button", class: ["button", kind], "aria-keyshortcuts": keys, on: { click: press }, ...attributes }, text, keyboard);
  return made;
}

/**
 * Open a dialog. An `action` is {text, kind, run}; `run` may be async, and if it fails the dialog stays open
 * with the problem. The focus goes back to where it was.
 */
export function dialog(title, content, action) {
  const heading = h("h2", { id: newId("dialog") }, title);
  const trouble = h("div");
  const before = document.activeElement;
  const perform = async () => {
    show(trouble);
    submit.disabled = true;
    try {
      await action.run();
      box.close();
    } catch (problem) {
      show(trouble, problemBox(problem));
    }
    submit.disabled = false;
  };
  const submit = action && h("button", { class: ["button", action.kind] }, action.text);
  const leave = button(t(action ? "action.cancel" : "action.close"), () => box.close(), { kind: "quiet" });
  const send = (event) => {
    event.preventDefault();
    if (action) perform();
  };
  const form = h("form", { on: { submit: send } }, heading, h("div.dialog-body", content), trouble, h("div.actions", submit, leave));
  const keys = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit();
  const close = () => {
    box.remove();
    if (before?.isConnected) before.focus();
  };
  const box = h("dialog.dialog", { "aria-labelledby": heading.id, on: { keydown: keys, close } }, form);
  document.body.append(box);
  box.showModal();
  return box;
}

let region;

export function announce(text) {
  region ||= document.getElementById("announcer");
  if (!region) return;
  // The same text twice is said twice.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

/** Values by the names of their labels. What is null is left out. */
export function facts(values) {
  const known = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl.facts", known.map(([name, value]) => [h("dt", t(`label.${name}`)), h("dd", value)]));
}
