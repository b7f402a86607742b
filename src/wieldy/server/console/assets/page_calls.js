// The calls of now and of the past, the newest first, as they change.
import { get, part, pathWith } from "./api.js";
import { isRunning, RunningCalls, showProgress } from "./call_progress.js";
import { h, outside, show } from "./dom.js";
import { dataTable, followCalls, linkTo, pagedList, stateField } from "./page_parts.js";
import { badge, duration, moment } from "./parts.js";
import { t } from "./words.js";

const STATES = ["pending", "approved", "started", "ok", "error", "timeout", "interrupted", "denied", "expired", "unknown", "dry_run"];
const HEADS = ["tool", "state", "caller", "when", "took", "says"];
const MOST_READ = 10;

export default {
  path: "/calls",
  async show(root, context) {
    const rows = new CallRows();
    const list = pagedList(root, context, {
      what: "calls",
      fields: [
        { name: "search" },
        { name: "tool" },
        stateField(STATES),
        { name: "caller" },
        { name: "session" },
        { name: "since", type: "datetime-local" },
        { name: "until", type: "datetime-local" },
      ],
      ask: (filters) => ({ ...filters, since: instant(filters.since), until: instant(filters.until) }),
      render: (calls) => rows.draw(calls),
      beside: h("a.button", { href: "/plots" }, t("label.plots")),
    });
    context.keep(rows.running.follow((id) => rows.tell(id)));
    followCalls(context, 300, list.refresh, () => true);
    await list.reload();
  },
};

function instant(text) {
  const at = new Date(text || NaN);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

class CallRows {
  constructor() {
    this.running = new RunningCalls();
    this.rows = new Map();
  }

  draw(calls) {
    const before = this.rows;
    this.rows = new Map(calls.map((call) => [call.call_id, { call, says: h("div.says") }]));
    // How far a call is that ran before the list was opened.
    calls.filter((call) => call.state === "started" && !before.has(call.call_id)).slice(0, MOST_READ).forEach((call) => this.readProgress(call.call_id));
    return dataTable(t("label.calls"), HEADS, calls.map((call) => this.cells(call)));
  }

  cells(call) {
    this.tell(call.call_id);
    return [callName(call), badge(call.state), whose(call), ...callTimes(call), this.rows.get(call.call_id).says];
  }

  tell(id) {
    const { call, says } = this.rows.get(id) || {};
    if (!call) return;
    if (isRunning(call)) showProgress(says, this.running.find(id));
    else show(says, decideLink(call) || outside(call.error));
  }

  async readProgress(id) {
    const found = await get(`/calls/${part(id)}`).catch(() => null);
    if (found) this.running.begin(id, found);
    this.tell(id);
  }
}

export const callName = (call) => linkTo("calls", call.call_id, call.tool);

export const whose = (call) => outside(call.caller ?? call.agent ?? call.session) ?? "–";

export const callTimes = (call) => [call.proposed_at && moment(call.proposed_at), call.seconds === null ? "" : duration(call.seconds)];

export function decideLink(call, options = {}) {
  return call.state === "pending" ? h("a", { href: pathWith("/inbox", { call: call.call_id }), ...options }, t("calls.decide")) : null;
}
