// The catalogue of tools; and one of them: what it takes, costs and loses, its lock, and a try-out.
import { get, hasRole, part, pathWith, post } from "./api.js";
import { argumentForm } from "./argument_form.js";
import { isRunning, RunningCalls, showProgress } from "./call_progress.js";
import { resultView } from "./content_blocks.js";
import { diffView } from "./diff_view.js";
import { h, longText, outside, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { onEvent } from "./live.js";
import { decideLink } from "./page_calls.js";
import { dataTable, folded, linkTo, listPage, pageHead, section } from "./page_parts.js";
import { amount, announce, badge, button, codeText, duration, errorText, facts, problemBox, verdictLine } from "./parts.js";
import { t } from "./words.js";

export const list = listPage({
  what: "tools",
  fields: () => [{ name: "search" }],
  limit: 100,
  heads: ["name", "description", "permission", "source", "tokens", "lock"],
  cells: (tool) => [
    linkTo("tools", tool.name),
    h("div.says", outside(tool.description)),
    permissionBadge(tool.permission),
    sourceName(tool),
    Number.isFinite(tool.tokens) ? amount(tool.tokens) : "–",
    lockBadge(tool.lock),
  ],
});

const sourceName = (tool) => linkTo("servers", tool.server) || outside(tool.source);

const permissionBadge = (permission) => badge(`permission-${permission}`);

function lockBadge(lock) {
  const state = typeof lock === "string" ? lock : lock?.state;
  return state && state !== "none" ? badge(`lock-${state}`) : "";
}

const TRAITS = ["read_only", "idempotent", "destructive", "open_world"];

export const one = {
  path: "/tools/:name",
  title: "tool",
  async show(root, { params, me, keep }) {
    try {
      const tool = await get(`/tools/${part(params.name)}`);
      show(root, toolParts(tool, hasRole(me, "call") ? new TryOut(tool, keep).element : null));
    } catch (problem) {
      show(root, h("h1", t("label.tool")), problemBox(problem));
    }
  },
};

function toolParts(tool, tryOut) {
  const schema = (name) => tool[name] && folded(t(`tool.${name}`), () => jsonView(tool[name], { depth: 3 }), { class: "part" });
  return [
    pageHead("tools", tool.name, permissionBadge(tool.permission)),
    h("div.prose", codeText(tool.description, { piece: 3000, label: t("label.description") })),
    toolFacts(tool),
    tryOut,
    lockSection(tool.lock),
    section(t("tool.losses"), lossTable(tool.losses || [])),
    costSection(tool),
    schema("input_schema"),
    schema("output_schema"),
  ];
}

function toolFacts(tool) {
  const traits = TRAITS.filter((name) => typeof tool.traits?.[name] === "boolean");
  return facts({
    permission: tool.asks_because ? t("tool.said_destructive") : null,
    source: sourceName(tool),
    group: outside(tool.group),
    tags: tool.tags.length ? outside(tool.tags.join(", ")) : null,
    traits: traits.length ? traits.map((name) => t(`trait.${name}.${tool.traits[name]}`)).join(", ") : null,
    timeout: tool.timeout === null ? null : duration(tool.timeout),
    tokens: amount(tool.tokens),
    calls: h("a", { href: pathWith("/calls", { tool: tool.name }) }, t("tool.its_calls")),
  });
}

function lockSection(lock) {
  if (!lock || typeof lock !== "object" || lock.state === "none") return null;
  const diff = lock.diff ? [lockDiff(lock.diff)] : [];
  return section(t("label.lock"), h("p", lockBadge(lock), " ", t(`lock.${lock.state}`)), ...diff);
}

function lockDiff(text) {
  return /^@@ /m.test(text) ? diffView(text, t("lock.before"), t("lock.now")) : codeText(text, { label: t("diff.title") });
}

function lossTable(losses) {
  if (!losses.length) return h("p.faint", t("tool.no_losses"));
  const rows = losses.slice(0, 200).map((loss) => [outside(loss.provider), h("code", outside(loss.path || "/")), longText(loss.what)]);
  return dataTable(t("tool.losses"), ["provider", "path", "what"], rows);
}

function costSection(tool) {
  const costs = Object.entries(tool.tokens_by_provider || {});
  if (!costs.length) return null;
  const rows = costs.map(([provider, tokens]) => [outside(provider), amount(tokens)]);
  return section(t("tool.cost"), dataTable(t("tool.cost"), ["provider", "tokens"], rows));
}

class TryOut {
  constructor(tool, keep) {
    this.tool = tool;
    this.running = new RunningCalls();
    this.answer = h("div.answer");
    const verdict = h("p.verdict", { "aria-live": "polite" });
    const tell = (told, problem) => show(verdict, told ? verdictLine(told) : longText(problem?.message));
    this.form = argumentForm(tool.input_schema, {}, { tool: tool.name }, tell);
    const call = button(t("tool.call"), () => this.run(), { kind: "primary", trouble: this.answer });
    this.element = section(t("tool.try"), this.form.element, verdict, h("div.actions", call), this.answer);
    keep(this.running.follow((id) => id === this.id && this.tellProgress()));
    keep(onEvent(["call", "pending"], (call) => call.call_id === this.id && this.refresh()));
  }

  async run() {
    this.form.reveal();
    if (!(await this.form.check())) return void this.form.element.querySelector("[aria-invalid]")?.focus();
    this.id = null;
    show(this.answer, h("p", t("state.started")));
    this.put(await post("/calls", { tool: this.tool.name, arguments: this.form.read(), wait: 2 }));
    // What happened before the id was known is read again.
    if (this.live) await this.refresh();
  }

  put(call) {
    this.id = call.call_id;
    const running = isRunning(call);
    this.live = running ? h("div.live") : null;
    const waits = decideLink(call);
    const error = call.error ? errorText(call.error) : null;
    const views = running || waits || error ? [] : resultView(call);
    show(this.answer, h("p", badge(call.state), " ", linkTo("calls", call.call_id, t("tool.see_call"))), this.live, waits, error, views);
    announce(`${t("label.call")}: ${t(`state.${call.state}`)}`);
    this.running.begin(call.call_id, call);
    this.tellProgress();
  }

  tellProgress() {
    if (this.live) showProgress(this.live, this.running.find(this.id), 10);
  }

  async refresh() {
    try {
      this.put(await get(`/calls/${part(this.id)}`));
    } catch (problem) {
      show(this.answer, problemBox(problem));
    }
  }
}
