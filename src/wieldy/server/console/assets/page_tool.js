// One tool: what it takes, what it costs, what each provider would lose, its lock, and a try-out.
import { get, hasRole, part, post } from "./api.js";
import { RunningCalls, showProgress } from "./call_progress.js";
import { resultView } from "./content_blocks.js";
import { diffView } from "./diff_view.js";
import { h, outside, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { onEvent } from "./live.js";
import { calmly, dataTable, folded, leaving, linkTo, pathWith, section } from "./page_parts.js";
import { lockBadge, permissionBadge } from "./page_tools.js";
import { amount, announce, badge, button, codeText, duration, facts, problemBox } from "./parts.js";
import { schemaForm } from "./schema_form.js";
import { t } from "./words.js";

const TRAITS = ["read_only", "idempotent", "destructive", "open_world"];

export default {
  path: "/tools/:name",
  nav: null,
  under: "tools",
  title: "tool.title",
  role: "call",
  async show(root, { params, me }) {
    const here = leaving();
    try {
      const tool = await get(`/tools/${part(params.name)}`);
      root.append(...toolParts(tool));
      if (hasRole(me, "call")) root.insertBefore(new TryOut(tool, here).element, root.querySelector(".after-try"));
    } catch (problem) {
      root.append(h("h1", {}, t("tool.title")), problemBox(problem));
    }
    return here.stop;
  },
};

function toolParts(tool) {
  return [
    h("p", { class: "crumbs" }, h("a", { href: "/tools" }, t("tools.title"))),
    h("div", { class: "page-head" }, h("h1", {}, outside(tool.name)), permissionBadge(tool.permission)),
    h("div", { class: "prose" }, codeText(tool.description, { piece: 3000, label: t("tools.description") })),
    toolFacts(tool),
    h("div", { class: "after-try" }),
    lockSection(tool.lock),
    section(t("tool.losses"), lossTable(tool.losses || [])),
    costSection(tool),
    folded(t("tool.input_schema"), () => jsonView(tool.input_schema, { depth: 3 }), { class: "part" }),
    tool.output_schema ? folded(t("tool.output_schema"), () => jsonView(tool.output_schema, { depth: 3 }), { class: "part" }) : null,
  ].filter((each) => each !== null);
}

function toolFacts(tool) {
  const traits = TRAITS.filter((name) => tool.traits?.[name] !== null && tool.traits?.[name] !== undefined);
  return facts(
    [t("tools.source"), tool.server ? linkTo("servers", tool.server) : outside(tool.source)],
    [t("tool.group"), outside(tool.group)],
    [t("tool.tags"), tool.tags.length ? outside(tool.tags.join(", ")) : null],
    [t("tool.traits"), traits.length ? traits.map((name) => t(`trait.${name}.${tool.traits[name]}`)).join(", ") : null],
    [t("tool.timeout"), tool.timeout === null ? null : duration(tool.timeout)],
    [t("tools.tokens"), amount(tool.tokens)],
    [t("calls.title"), h("a", { href: pathWith("/calls", { tool: tool.name }) }, t("tool.its_calls"))],
  );
}

function lockSection(lock) {
  if (!lock || typeof lock !== "object" || lock.state === "none") return null;
  const diff = lock.diff ? [lockDiff(lock.diff)] : [];
  return section(t("tools.lock"), h("p", {}, lockBadge(lock), " ", t(`lock.${lock.state}`)), ...diff);
}

function lockDiff(text) {
  return /^@@ /m.test(text) ? diffView(text, t("lock.before"), t("lock.now")) : codeText(text, { label: t("diff.title") });
}

function lossTable(losses) {
  if (!losses.length) return h("p", { class: "faint" }, t("tool.no_losses"));
  const rows = losses.slice(0, 200).map((loss) => [outside(loss.provider), h("code", {}, outside(loss.path || "/")), outside(loss.what, { longest: 1000 })]);
  return dataTable(t("tool.losses"), ["tool.provider", "tool.path", "tool.what"], rows);
}

function costSection(tool) {
  const costs = Object.entries(tool.tokens_by_provider || {});
  if (!costs.length) return null;
  const rows = costs.map(([provider, tokens]) => [outside(provider), amount(tokens)]);
  return section(t("tool.cost"), dataTable(t("tool.cost"), ["tool.provider", "tools.tokens"], rows));
}

/** The schema as a form; what is filled in is checked as one types, and called through the engine. */
class TryOut {
  constructor(tool, here) {
    this.tool = tool;
    this.pictures = leaving();
    this.asked = 0;
    this.answer = h("div", { class: "answer" });
    this.verdict = h("p", { class: "verdict", "aria-live": "polite" });
    const check = calmly(300, () => this.check());
    this.form = schemaForm(tool.input_schema, {}, { onChange: check });
    this.call = button(t("tool.call"), () => this.run(), { kind: "primary" });
    this.element = section(t("tool.try"), this.form.element, this.verdict, h("div", { class: "actions" }, this.call), this.answer);
    here.keep(check.stop);
    here.keep(this.pictures.stop);
    here.keep(this.follow());
    this.check();
  }

  read() {
    try {
      return this.form.read();
    } catch (problem) {
      this.form.setProblems([problem]);
      return undefined;
    }
  }

  /** Say what is wrong with the arguments, or what would become of the call; false if they don't fit. */
  async check() {
    const values = this.read();
    if (values === undefined || values === null) return;
    this.asked += 1;
    const mine = this.asked;
    try {
      const body = { tool: this.tool.name, arguments: values };
      const { problems } = await post("/check-arguments", body);
      if (mine !== this.asked) return;
      this.form.setProblems(problems);
      if (problems.length) {
        show(this.verdict);
        return false;
      }
      const told = await post("/explain", body);
      if (mine === this.asked) show(this.verdict, h("span", { class: `badge badge-${told.decision}` }, t(`tryout.${told.decision}`)), " ", outside(told.because, { longest: 500 }));
    } catch (problem) {
      show(this.verdict, outside(problem.message, { longest: 500 }));
    }
  }

  async run() {
    this.form.reveal();
    const values = this.read();
    if (values === undefined || values === null) return;
    if ((await this.check()) === false) return void this.form.element.querySelector("[aria-invalid]")?.focus();
    this.call.disabled = true;
    this.pictures.stop();
    show(this.answer, h("p", {}, t("call.running")));
    try {
      const made = await post("/calls", { tool: this.tool.name, arguments: values, wait: 2 });
      this.put(made);
      // What happened before the id was known is read again.
      if (this.live) await this.refresh();
    } catch (problem) {
      this.id = null;
      show(this.answer, problemBox(problem));
    }
    this.call.disabled = false;
  }

  put(call) {
    this.id = call.call_id;
    const head = h("p", {}, badge(call.state), " ", linkTo("calls", call.call_id, t("tool.see_call")));
    const running = call.state === "started" || call.state === "approved";
    this.live = running ? h("div", { class: "live" }) : null;
    const waits = call.state === "pending" ? h("a", { href: pathWith("/inbox", { call: call.call_id }) }, t("calls.decide")) : null;
    const error = call.error ? codeText(call.error, { label: t("call.error") }) : null;
    const views = running || waits || error ? [] : resultView(call, this.pictures.keep);
    show(this.answer, head, this.live, waits, error, ...views);
    announce(t("tool.answered", { state: t(`state.${call.state}`) }));
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

  /** A call that goes on is shown as it changes. */
  follow() {
    this.running = new RunningCalls();
    const ends = [
      this.running.follow((id) => id === this.id && this.tellProgress()),
      onEvent(["call", "pending"], (call) => call.call_id === this.id && this.refresh()),
    ];
    return () => ends.forEach((end) => end());
  }
}
