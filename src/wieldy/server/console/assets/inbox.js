// The inbox: calls that wait for a person, and one of them in full beside the list.

import { hasRole, pathWith } from "./api.js";
import { escapeText, h, outside, show, shortText } from "./dom.js";
import { argumentLine, InboxCalls, sayCaller, sayDecision } from "./inbox_calls.js";
import { allowAlways, decideSeveral, denyOne, inTurn } from "./inbox_decisions.js";
import { InboxDetail, isCut, isMissing, isOffered } from "./inbox_detail.js";
import { setKeys } from "./keyboard.js";
import { onReturn } from "./page_parts.js";
import { announce, badge, button, emptyState, moment, pager } from "./parts.js";
import { t } from "./words.js";

export default {
  path: "/inbox",
  async show(root, context) {
    const view = new Inbox(root, context);
    context.keep(() => view.close());
    context.keep(onReturn(() => view.comeBack()));
    await view.start();
  },
};

class Inbox {
  constructor(root, { me, query, setQuery }) {
    this.me = me;
    this.setQuery = setQuery;
    this.current = query.get("call");
    this.selected = new Set();
    this.reading = false;
    this.rows = new Map();
    this.calls = new InboxCalls(me, (id) => this.update(id));
    this.detail = new InboxDetail(this);
    this.bulk = h("div.inbox-bulk", { hidden: true });
    this.drawBulk = this.makeBulk();
    this.listBox = h("ul.inbox-rows", { "aria-label": t("inbox.list") });
    this.below = h("div");
    this.box = h("div.inbox", h("section.inbox-list.card", { "aria-label": t("inbox.list") }, this.bulk, this.listBox, this.below), this.detail.element);
    this.summary = h("span.faint");
    show(root, h("div.page-head", h("h1", t("label.inbox")), this.summary), this.box);
    this.stopKeys = setKeys(this.makeKeys());
  }

  get decides() {
    return hasRole(this.me, "approve");
  }

  get administers() {
    return hasRole(this.me, "administer");
  }

  makeKeys() {
    const keys = [
      ["j", "key_next", () => this.move(1)],
      ["k", "key_previous", () => this.move(-1)],
      ["a", "approve", () => this.approve()],
      ["d", "deny", () => this.deny()],
      ["e", "edit", () => this.edit()],
      ["x", "key_select", () => this.current && this.toggle(this.current)],
      ["r", "always", () => this.always()],
    ];
    return (this.decides ? keys : keys.slice(0, 2)).map(([key, word, run]) => ({ key, text: t(`inbox.${word}`), run: () => this.reading || run() }));
  }

  async start() {
    await this.calls.load();
    if (this.current && !this.calls.get(this.current)) await this.calls.readDetail(this.current).catch(() => (this.current = null));
    const first = this.calls.waiting()[0];
    // On a phone the list comes first, and a call is opened by a tap.
    if (!this.current && first && matchMedia("(min-width: 761px)").matches) this.current = first.id;
    if (this.current) await this.open(this.current, { focus: false });
    else this.update(null);
  }

  comeBack() {
    this.calls.forgetOutage();
    if (this.current) this.open(this.current, { focus: false });
  }

  /** Read all of some calls, and give those that are there. Keys wait: they may be meant for what comes. */
  async readWhole(items) {
    if (this.reading) return [];
    this.reading = true;
    this.update(this.current);
    const found = new Set();
    await inTurn(items, async (item) => (await this.calls.readWhole(item)) && found.add(item));
    this.reading = false;
    this.update(this.current);
    return this.closed ? [] : items.filter((each) => found.has(each) && !each.call.cut.length);
  }

  close() {
    this.calls.stop();
    this.stopKeys();
    this.closed = true;
  }

  // Only what changed is drawn, so that the focus stays.
  update(id) {
    if (this.closed) return;
    if (id === null) this.drawList();
    else this.drawRow(this.calls.get(id));
    if (id === null || id === this.current) this.detail.show(this.calls.get(this.current));
    if (id !== null) this.sayChange(this.calls.get(id));
    this.tellDialog?.();
    this.drawFrame();
  }

  sayChange(item) {
    if (!item || item.told === item.state || item.state === "pending") return;
    item.told = item.state;
    announce(`${escapeText(item.call.tool)}: ${sayDecision(item, this.me)}`);
  }

  drawFrame() {
    const waiting = this.calls.waiting();
    for (const id of this.selected) if (this.calls.get(id)?.state !== "pending") this.selected.delete(id);
    show(this.summary, t("inbox.count", { count: waiting.length }));
    const decided = this.calls.list().length - waiting.length;
    this.box.classList.toggle("has-current", this.current !== null);
    this.drawBulk(waiting.length, decided);
    const empty = this.calls.list().length === 0;
    this.box.classList.toggle("is-empty", empty);
    show(this.below, empty ? emptyState(t("inbox.empty"), h("p.faint.small", t("inbox.empty_more"))) : pager({ next: this.calls.nextCursor, onNext: () => this.calls.loadMore() }));
  }

  // These are made once, so that the focus stays on them.
  makeBulk() {
    const all = h("input", { type: "checkbox", on: { change: () => this.selectAll(all.checked) } });
    const text = h("span");
    const label = h("label.check", all, text);
    const names = { approve: h("span"), deny: h("span") };
    const approve = button(names.approve, () => this.approve(), { kind: "primary small", keys: "a" });
    const deny = button(names.deny, () => this.deny(), { kind: "danger small", keys: "d" });
    const drop = button("", () => this.calls.dropDecided(), { kind: "quiet small" });
    show(this.bulk, label, approve, deny, drop);
    return (waiting, decided) => {
      const chosen = this.selected.size;
      all.checked = chosen > 0 && chosen === waiting;
      all.indeterminate = chosen > 0 && chosen < waiting;
      show(text, chosen ? t("inbox.selected", { count: chosen }) : t("inbox.select_all"));
      // The open call has buttons of its own, which mean that call alone.
      for (const [verb, name] of Object.entries(names)) show(name, t(`inbox.${verb}_several`, { count: chosen }));
      approve.disabled = deny.disabled = this.reading;
      show(drop, t("inbox.drop_decided", { count: decided }));
      label.hidden = !this.decides || waiting < 2;
      approve.hidden = deny.hidden = chosen === 0;
      drop.hidden = decided === 0 || chosen > 0;
      this.bulk.hidden = label.hidden && approve.hidden && drop.hidden;
    };
  }

  selectAll(on) {
    this.selected = new Set(on ? this.calls.waiting().map((each) => each.id) : []);
    this.drawList();
    this.drawFrame();
  }

  drawList() {
    const items = this.calls.list();
    const focused = this.listBox.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.call : null;
    this.rows = new Map(items.map((item) => [item.id, this.makeRow(item)]));
    show(this.listBox, [...this.rows.values()]);
    if (focused) this.rows.get(focused)?.querySelector("a")?.focus();
    if (this.current && !this.calls.get(this.current)) this.current = null;
  }

  drawRow(item) {
    if (!item) return;
    const old = this.rows.get(item.id);
    if (!old) return this.drawList();
    const inside = old.contains(document.activeElement) && document.activeElement.matches("a, input") ? document.activeElement.tagName : null;
    const made = this.makeRow(item);
    old.replaceWith(made);
    this.rows.set(item.id, made);
    if (inside) (made.querySelector(inside.toLowerCase()) || made.querySelector("a")).focus();
  }

  makeRow(item) {
    const { call } = item;
    const waits = item.state === "pending";
    const label = t("inbox.select_one", { tool: shortText(call.tool) });
    const toggle = () => this.toggle(item.id);
    const mark = this.decides && waits ? h("input", { type: "checkbox", checked: this.selected.has(item.id), "aria-label": label, on: { change: toggle } }) : h("span");
    const link = h(
      "a.inbox-open",
      { href: pathWith("/inbox", { call: item.id }), "aria-current": item.id === this.current && "true", on: { click: (event) => this.clickRow(event, item) } },
      h(
        "span.inbox-line",
        outside(call.tool, { class: "tool-name", longest: 80 }),
        waits ? null : badge(item.state),
        item.busy ? h("span.faint.small", t("inbox.sending")) : null,
        h("span.faint.small.inbox-when", moment(call.proposed_at)),
      ),
      h("span.inbox-preview.faint", argumentLine(call, 90)),
      h("span.small.faint", waits ? sayCaller(call) : sayDecision(item, this.me)),
    );
    return h("li", { class: ["inbox-row", item.id === this.current && "current", !waits && "decided"], "data-call": item.id }, mark, link);
  }

  clickRow(event, item) {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.open(item.id);
  }

  toggle(id) {
    if (!this.decides || this.calls.get(id)?.state !== "pending") return;
    if (!this.selected.delete(id)) this.selected.add(id);
    this.drawRow(this.calls.get(id));
    this.drawFrame();
    announce(t("inbox.selected", { count: this.selected.size }));
  }

  move(step) {
    const ids = this.calls.list().map((each) => each.id);
    if (!ids.length) return;
    const at = ids.indexOf(this.current);
    this.open(at < 0 ? ids[0] : ids[at + step] ?? this.current);
  }

  async open(id, { focus = true } = {}) {
    const before = this.current;
    this.current = id;
    this.setQuery({ call: id });
    this.drawRow(this.calls.get(before));
    this.drawRow(this.calls.get(id));
    this.drawFrame();
    const link = this.rows.get(id)?.querySelector("a");
    if (focus && link) {
      link.focus();
      link.scrollIntoView({ block: "nearest" });
    }
    const item = this.calls.get(id);
    this.detail.show(item);
    if (focus && !matchMedia("(min-width: 761px)").matches) this.detail.focus();
    if (!item || item.detailed || item.state !== "pending") return;
    await this.calls.readDetail(id).catch((problem) => this.calls.keepProblem(item, problem));
  }

  /** Leave the call on a phone, where it covers the list. */
  back() {
    const id = this.current;
    this.current = null;
    this.setQuery({ call: null });
    this.drawList();
    this.update(null);
    this.rows.get(id)?.querySelector("a")?.focus();
  }

  // The call that a key means: the one that is open, if it still waits.
  currentItem() {
    const item = this.calls.get(this.current);
    return item?.state === "pending" && !item.busy ? item : null;
  }

  chosen() {
    return [...this.selected].map((id) => this.calls.get(id)).filter((each) => each?.state === "pending");
  }

  approve() {
    if (!this.decides || this.reading) return;
    const item = this.currentItem();
    if (this.selected.size) decideSeveral(this, this.chosen(), "approve");
    else if (!item || !isOffered(item) || !item.detailed || isCut(item.call)) return;
    else if (this.detail.editing) this.detail.submitEdit();
    else this.calls.decide(item, "approve", {});
  }

  deny() {
    if (!this.decides || this.reading) return;
    const item = this.currentItem();
    if (this.selected.size) decideSeveral(this, this.chosen(), "deny");
    else if (item) denyOne(this, item);
  }

  edit() {
    const item = this.currentItem();
    if (item && this.decides && isOffered(item)) this.detail.edit(item);
  }

  always() {
    const item = this.currentItem();
    if (item && this.administers && isOffered(item) && !isMissing(item.call)) allowAlways(this, item);
  }
}
