// How far running calls are, and the last of what they have written.
import { h, outside, show } from "./dom.js";
import { onEvent } from "./live.js";
import { t } from "./words.js";

const MOST_CALLS = 500;
const MOST_TEXT = 20_000;

export const isRunning = (call) => call.state === "started" || call.state === "approved";

export class RunningCalls {
  constructor() {
    this.known = new Map();
  }

  /** What is known of a call; the oldest is forgotten if there are many. */
  find(id) {
    if (!this.known.has(id)) {
      if (this.known.size >= MOST_CALLS) this.known.delete(this.known.keys().next().value);
      this.known.set(id, { progress: null, output: "", begin: 0, end: 0 });
    }
    return this.known.get(id);
  }

  begin(id, call) {
    const known = this.find(id);
    known.progress ??= call.progress;
    addPiece(known, call.output, call.output_end);
  }

  /** Listen, and tell the id of every call that got on. Gives what ends it. */
  follow(tell) {
    return onEvent(["progress", "output"], (data, name) => {
      if (!data || typeof data.call_id !== "string") return;
      const found = this.find(data.call_id);
      if (name === "progress") found.progress = data;
      else addPiece(found, data.text, data.end);
      tell(data.call_id);
    });
  }
}

// Add what is not known yet of a text. `end` is its place in all that the call has written.
function addPiece(known, text, end) {
  const piece = [...text];
  const begin = end - piece.length;
  if (known.end === 0) known.begin = begin;
  const before = piece.slice(0, Math.max(0, known.begin - begin));
  const after = piece.slice(Math.max(0, known.end - begin));
  const gap = known.end && begin > known.end ? "\n⋯\n" : "";
  known.output = (before.join("") + known.output + gap + after.join("")).slice(-MOST_TEXT);
  known.begin = Math.min(known.begin, begin);
  known.end = Math.max(known.end, end);
}

// The bar moves without a value if nobody knows how much there is to do.
function progressBar({ progress, total, message } = {}) {
  const known = Number.isFinite(progress) && Number.isFinite(total) && total > 0;
  const part = known ? Math.min(1, Math.max(0, progress / total)) : null;
  const label = known ? `${Math.floor(part * 100)} %` : t("state.started");
  const bar = h("progress", { "aria-label": t("label.progress"), max: known ? "1" : null });
  if (known) bar.value = part;
  return h("span.progress", bar, h("span", label), outside(message || null));
}

/** Show how far a call is. The box of its output stays, at its end unless somebody scrolled up. */
export function showProgress(element, { progress, output }, lines = 2) {
  const bar = progressBar(progress || {});
  const tail = element.querySelector(".tail") || h("pre.tail", { tabindex: "0", role: "group", "aria-label": t("label.text") });
  const follows = tail.scrollHeight - tail.scrollTop - tail.clientHeight < 5;
  if (tail.parentNode) element.querySelector(".progress").replaceWith(bar);
  else show(element, bar, tail);
  show(tail, outside(output.trimEnd().split("\n").slice(-lines).join("\n"), { longest: MOST_TEXT }));
  tail.hidden = !output.trim();
  if (follows) tail.scrollTop = tail.scrollHeight;
}
