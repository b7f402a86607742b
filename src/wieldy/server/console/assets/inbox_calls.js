// The waiting calls of the inbox, kept up to date by events. A call that was decided stays in the list, with
// the decision, until the person takes it away.

import { get, part, post } from "./api.js";
import { shortText, outside } from "./dom.js";
import { jsonLine } from "./json_view.js";
import { onEvent } from "./live.js";
import { t } from "./words.js";

const PAGE = 100;
const GATHERING = 50;
const FEW = 5;

export class InboxCalls {
  /** `onChange` gets the id of the call that changed, or null if the list did. */
  constructor(me, onChange) {
    this.me = me;
    this.onChange = onChange;
    this.items = new Map();
    this.nextCursor = null;
    this.fresh = new Set();
    this.timer = null;
    this.stop = onEvent(["pending", "call", "reset"], (call, name) => this.follow(call, name));
  }

  list() {
    return [...this.items.values()];
  }

  waiting() {
    return this.list().filter((each) => each.state === "pending");
  }

  get(id) {
    return this.items.get(id) || null;
  }

  /** Read the first page; what was decided meanwhile is kept. */
  async load() {
    const page = await this.readPage();
    const found = new Set(page.pending.map((each) => each.call_id));
    for (const item of this.waiting()) {
      // A call that is not listed any more was decided while nobody listened.
      if (!found.has(item.id) && !page.next_cursor) await this.refreshState(item);
    }
    this.putPage(page);
  }

  async loadMore() {
    this.putPage(await this.readPage(this.nextCursor));
  }

  readPage(cursor) {
    return get("/pending", { limit: PAGE, cursor });
  }

  putPage(page) {
    page.pending.forEach((each) => this.put(each));
    this.nextCursor = page.next_cursor;
    this.onChange(null);
  }

  put(call) {
    const known = this.items.get(call.call_id);
    if (known && known.state !== "pending" && known.gone) return known;
    const item = known || { id: call.call_id, state: "pending", decision: null, outcome: null, problem: null, busy: false };
    item.call = { ...item.call, ...call };
    item.state = "pending";
    this.items.set(item.id, item);
    return item;
  }

  async refreshState(item) {
    const call = await get(`/calls/${part(item.id)}`).catch(() => null);
    if (call && call.state !== "pending") this.settle(item, call);
  }

  /** Read a call in full; `whole` reads long arguments too. */
  async readDetail(id, whole = false) {
    const call = await get(`/pending/${part(id)}`, whole ? { whole: "true" } : {});
    const item = this.put(call);
    item.detailed = true;
    this.onChange(id);
    return item;
  }

  /** Read what is not known of a call yet. Gives whether all of it is there. */
  async readWhole(item) {
    if (!item.detailed || item.call.cut.length) await this.readDetail(item.id, true).catch((problem) => this.keepProblem(item, problem));
    return Boolean(item.detailed) && !item.call.cut.length && item.state === "pending";
  }

  async keepProblem(item, problem) {
    item.problem = problem;
    const isGone = problem.code === "not_found";
    if (isGone || problem.code === "already_decided") await this.refreshState(item);
    // What became of the call says more.
    if (isGone && item.state !== "pending") item.problem = null;
    this.onChange(item.id);
  }

  forgetOutage() {
    for (const item of this.list()) if (item.problem?.status === 0) item.problem = null;
    this.onChange(null);
  }

  async follow(call, name) {
    if (name === "reset") return this.load().catch(() => null);
    const item = this.items.get(call.call_id);
    if (name === "call") {
      if (item) this.settle(item, call);
      return item && this.onChange(item.id);
    }
    if (item && item.state === "pending" && !item.busy) return null;
    if (item) item.gone = false;
    this.fresh.add(call.call_id);
    this.timer ??= setTimeout(() => this.readFresh(), GATHERING);
    return null;
  }

  // Read calls that began to wait: a few one by one, many as a list.
  async readFresh() {
    const ids = [...this.fresh];
    this.fresh.clear();
    this.timer = null;
    if (ids.length > FEW) return this.load().catch(() => null);
    // A call that is not found was decided before it could be read.
    const read = (id) => get(`/pending/${part(id)}`).then((call) => (this.put(call).detailed = true)).catch(() => null);
    await Promise.all(ids.map(read));
    return this.onChange(null);
  }

  settle(item, call) {
    item.state = call.state;
    item.gone = true;
    item.decision = call.decision || item.decision;
    item.outcome = { ...item.outcome, ...call };
  }

  /** Decide on a call: `verb` is approve, deny or answer. A problem is kept with the call. */
  async decide(item, verb, body) {
    item.busy = true;
    item.problem = null;
    this.onChange(item.id);
    try {
      const call = await post(`/pending/${part(item.id)}/${verb}`, body);
      if (call.state !== "pending") this.settle(item, call);
      return true;
    } catch (problem) {
      await this.keepProblem(item, problem);
      return false;
    } finally {
      item.busy = false;
      this.onChange(item.id);
    }
  }

  dropDecided() {
    for (const item of this.list()) if (item.state !== "pending" && !item.busy) this.items.delete(item.id);
    this.onChange(null);
  }
}

/** The beginning of the arguments. Those that were cut are JSON already. */
export function argumentLine({ arguments: given }, longest) {
  return typeof given === "string" ? outside(given, { class: "json-line", longest }) : jsonLine(given, longest);
}

export function sayCaller(call) {
  const names = [call.caller, call.agent && call.agent !== call.caller ? call.agent : null].filter(Boolean);
  if (!names.length) return t("inbox.by_nobody");
  return [t("inbox.asked_by"), " ", outside(names.join(" · "), { longest: 80 })];
}

export function sayDecision(item, me) {
  const made = item.decision;
  if (!made) return t(`state.${item.state}`);
  const by = made.by === null ? t("app.local") : made.by === me.name ? t("who.you") : shortText(made.by, 80);
  return t(made.approved ? "inbox.approved_by" : "inbox.denied_by", { by });
}
