// The calls of now and of the past, the newest first, as they change.
import { get, part } from "./api.js";
import { RunningCalls, showProgress } from "./call_progress.js";
import { h, outside } from "./dom.js";
import { onEvent } from "./live.js";
import { calmly, dataTable, leaving, linkTo, pagedList, pathWith, tableRow } from "./page_parts.js";
import { badge, duration, moment } from "./parts.js";
import { t } from "./words.js";

const STATES = [
  "pending", "approved", "started", "ok", "error", "timeout", "interrupted", "denied", "expired", "unknown", "dry_run",
];
const HEADS = ["calls.tool", "calls.state", "calls.caller", "calls.when", "calls.took", "calls.says"];
const PAGE = 50;
const MOST_ROWS = 100;
const MOST_READ = 10;
const FIELDS = [
  { name: "search", label: "list.search" },
  { name: "tool", label: "calls.tool" },
  { name: "state", label: "calls.state" },
  { name: "caller", label: "calls.caller" },
  { name: "session", label: "calls.session" },
  { name: "since", label: "calls.since", type: "datetime-local" },
  { name: "until", label: "calls.until", type: "datetime-local" },
];

export default {
  path: "/calls",
  nav: "calls",
  title: "calls.title",
  role: "call",
  async show(root, { query, go }) {
    const here = leaving();
    const running = new RunningCalls();
    const rows = new Map();
    const fields = FIELDS.map((field) => (field.name === "state" ? { ...field, options: stateOptions() } : field));
    root.append(
      h("div", { class: "page-head" }, h("h1", {}, t("calls.title")), h("a", { class: "button", href: "/plots" }, t("plots.title"))),
    );
    const list = pagedList(root, {
      path: "/calls",
      query,
      fields,
      go,
      read: (filters) => readCalls(filters),
      render: (calls) => makeTable(calls, rows, running),
      empty: t("calls.empty"),
    });
    here.keep(running.follow((id) => rows.has(id) && rows.get(id).tell()));
    here.keep(followCalls(list, rows, running));
    here.keep(list.stop);
    await list.reload();
    return here.stop;
  },
};

function stateOptions() {
  return [["", t("list.any")], ...STATES.map((state) => [state, t(`state.${state}`)])];
}

async function readCalls({ since, until, ...filters }) {
  const answer = await get("/calls", { ...filters, since: instant(since), until: instant(until), limit: PAGE });
  return { items: answer.calls, next: answer.next_cursor };
}

/** A local time of a field as the API wants it. */
function instant(text) {
  const at = new Date(text || NaN);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

function makeTable(calls, rows, running) {
  rows.clear();
  const table = dataTable(t("calls.title"), HEADS, []);
  for (const call of calls) table.tBodies[0].append(makeRow(call, rows, running));
  calls.filter((call) => call.state === "started").slice(0, MOST_READ).forEach((call) => readProgress(call, rows, running));
  return table;
}

/** How far a call is that already ran when the list was opened; what comes later is told by events. */
async function readProgress({ call_id: id }, rows, running) {
  const found = await get(`/calls/${part(id)}`).catch(() => null);
  if (found) running.begin(id, found);
  rows.get(id)?.tell();
}

function makeRow(call, rows, running) {
  const says = h("div", { class: "says" });
  const row = tableRow(HEADS.map((head) => t(head)), [
    callName(call),
    badge(call.state),
    whose(call),
    call.proposed_at ? moment(call.proposed_at) : "",
    call.seconds === null ? "" : duration(call.seconds),
    says,
  ]);
  row.dataset.at = Date.parse(call.proposed_at);
  const tell = () => tellState(says, call, running);
  rows.set(call.call_id, { row, call, tell });
  tell();
  return row;
}

/** The tool's name as a link to the call. */
export function callName(call) {
  return linkTo("calls", call.call_id, call.tool);
}

/** Who has made a call. */
export function whose(call) {
  const name = call.caller ?? call.agent ?? call.session;
  return name === null ? t("calls.nobody") : outside(name);
}

function tellState(says, call, running) {
  if (call.state === "started" || call.state === "approved") {
    showProgress(says, running.find(call.call_id));
  } else if (call.state === "pending") {
    says.replaceChildren(h("a", { href: pathWith("/inbox", { call: call.call_id }) }, t("calls.decide")));
  } else {
    says.replaceChildren(...(call.error ? [outside(call.error)] : []));
  }
}

/** Change and add rows as calls change. Only the first page gets new ones. */
function followCalls(list, rows, running) {
  const changed = new Map();
  const apply = calmly(200, () => {
    const calls = [...changed.values()];
    changed.clear();
    const body = list.list.querySelector("tbody");
    if (!body) return list.first && calls.some((call) => fits(call, list.filters)) ? list.reload() : null;
    return calls.forEach((call) => putRow(call, body, list, rows, running));
  });
  const reload = calmly(1000, list.reload);
  const stop = onEvent(["call", "pending", "reset"], (call, name) => {
    // Only the server knows which calls have the words.
    if (name === "reset" || (list.filters.search && list.first)) return reload();
    changed.set(call.call_id, call);
    return apply();
  });
  return () => {
    apply.stop();
    reload.stop();
    stop();
  };
}

function putRow(call, body, list, rows, running) {
  const before = rows.get(call.call_id);
  if (!fits(call, list.filters)) {
    before?.row.remove();
    rows.delete(call.call_id);
  } else if (before) {
    const focused = before.row.contains(document.activeElement);
    before.row.replaceWith(makeRow(call, rows, running));
    if (focused) rows.get(call.call_id).row.querySelector("a").focus();
  } else if (list.first) {
    insertRow(call, body, rows, running);
    forgetLast(body, rows);
  }
}

/** A call of the past that changes has its place among the others, or on a later page. */
function insertRow(call, body, rows, running) {
  const at = Date.parse(call.proposed_at);
  const next = [...body.rows].find((row) => Number(row.dataset.at) <= at);
  if (next) next.before(makeRow(call, rows, running));
  else if (body.rows.length < PAGE) body.append(makeRow(call, rows, running));
}

function forgetLast(body, rows) {
  while (body.rows.length > MOST_ROWS) {
    const last = [...rows].find(([, each]) => each.row === body.lastElementChild);
    if (last) rows.delete(last[0]);
    body.lastElementChild.remove();
  }
}

/** Whether a call belongs to what is looked for, as the server would say. */
function fits(call, filters) {
  const same = ["tool", "state", "caller", "session"].every((name) => !filters[name] || call[name] === filters[name]);
  const at = new Date(call.proposed_at);
  const late = filters.since && at < new Date(filters.since);
  const early = filters.until && at >= new Date(filters.until);
  return same && !late && !early;
}
