// The runs of agents, the newest first; and one of them: its tree, its conversation, and resume it.
import { get, part, post } from "./api.js";
import { cutNote, isCut } from "./content_blocks.js";
import { h, outside, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { callName } from "./page_calls.js";
import { folded, followCalls, linkTo, listPage, loader, onReturn, pageHead, section, stateField } from "./page_parts.js";
import { amount, announce, badge, button, codeText, duration, errorText, facts, moment, note } from "./parts.js";
import { hasWord, t } from "./words.js";

const STATES = ["running", "interrupted", "crashed", "failed", "cancelled", "done"];

export const list = listPage({
  what: "runs",
  fields: () => [stateField(STATES, "run-"), { name: "agent" }, { name: "session" }],
  heads: ["agent", "state", "steps", "session", "began", "changed", "says"],
  cells: (run) => [
    linkTo("runs", run.run_id, run.agent || run.run_id),
    runBadge(run.state),
    amount(run.steps),
    outside(run.session) ?? "–",
    moment(run.created_at),
    moment(run.changed_at),
    outside(run.error) ?? "",
  ],
  // A run is told by the calls that it makes.
  follow: (list, context) => followCalls(context, 1000, list.refresh, (call) => call.run),
});

const runBadge = (state) => badge(`run-${state}`);

const MESSAGES_AT_FIRST = 50;
const MOST_CALLS = 300;

export const one = {
  path: "/runs/:run_id",
  title: "run",
  async show(root, { params, keep }) {
    const page = new RunPage(root, params.run_id);
    await page.load();
    keep(onReturn(page.load));
    followCalls({ keep }, 500, page.load, (call) => page.ids.has(call.run));
  },
};

class RunPage {
  constructor(root, id) {
    Object.assign(this, { id, ids: new Set([id]), whole: null });
    this.trouble = h("div");
    this.head = h("div", h("h1", t("label.run")));
    this.body = h("div");
    this.load = loader(this.body, () => get(`/runs/${part(id)}`, { whole: this.whole }), (run) => this.put(run));
    root.append(this.head, this.trouble, this.body);
  }

  put(run) {
    this.ids = new Set(idsOf(run));
    const resume = run.resumable ? button(t("run.resume"), () => this.resume(), { kind: "primary", trouble: this.trouble }) : null;
    show(this.head, pageHead("runs", run.agent || run.run_id, runBadge(run.state), resume), runFacts(run), cutNote(run, () => this.loadWhole()));
    show(
      this.body,
      run.error ? section(t("label.error"), errorText(run.error)) : null,
      section(t("run.tree"), h("ul.tree", runNode(run, true))),
      section(t("run.conversation"), conversation(run)),
      section(t("label.answer"), answerView(run)),
    );
  }

  loadWhole() {
    this.whole = true;
    return this.load();
  }

  async resume() {
    show(this.trouble);
    await post(`/runs/${part(this.id)}/resume`);
    announce(t("run.resumed"));
    await this.load();
  }
}

function runFacts(run) {
  return facts({
    run: h("code", outside(run.run_id)),
    outer: linkTo("runs", run.parent),
    session: outside(run.session),
    steps: amount(run.steps),
    began: moment(run.created_at),
    changed: moment(run.changed_at),
    usage: usageText(run.usage),
  });
}

function* idsOf(run) {
  const left = [run];
  while (left.length) {
    const each = left.pop();
    yield each.run_id;
    left.push(...each.runs, ...each.rounds.flatMap((round) => round.calls.map((call) => call.inner_run).filter(Boolean)));
  }
}

function usageText(usage) {
  const numbers = Object.entries(usage || {}).filter(([, value]) => Number.isFinite(value) && value > 0);
  return numbers.length ? outside(numbers.map(([name, value]) => `${name}: ${amount(value)}`).join(", ")) : null;
}

/** A run as a branch; inner runs are made when they are opened. */
function runNode(run, open) {
  const content = () => [
    h("ul", run.rounds.slice(0, MOST_CALLS).map((round) => roundNode(round)), run.runs.map((inner) => runNode(inner, false))),
    run.rounds.length || run.runs.length ? null : note(t("run.no_calls")),
  ];
  const title = h("span", open ? outside(run.agent) : linkTo("runs", run.run_id, run.agent || run.run_id), " ", runBadge(run.state));
  if (open) return h("li", title, content());
  return h("li", folded(title, content));
}

function roundNode(round) {
  const number = /^\d+$/.test(round.place) ? t("run.round", { number: Number(round.place) + 1 }) : outside(round.place);
  return h("li", h("span.round", number), h("ul", round.calls.slice(0, MOST_CALLS).map(callNode)));
}

function callNode(call) {
  return h(
    "li",
    callName(call),
    " ",
    badge(call.state),
    " ",
    call.seconds === null ? null : h("span.faint", duration(call.seconds)),
    h("div.error-text", outside(call.error)),
    call.inner_run ? h("ul", runNode(call.inner_run, false)) : null,
  );
}

function conversation(run) {
  const tools = new Map(run.rounds.flatMap((round) => round.calls.map((call) => [call.call_id, call.tool])));
  const items = (some) => h("ol.messages", some.map((message) => messageNode(message, tools)));
  const hidden = Math.max(0, run.messages.length - MESSAGES_AT_FIRST);
  const earlier = hidden ? folded(t("run.earlier", { count: hidden }), () => items(run.messages.slice(0, hidden))) : null;
  return [earlier, items(run.messages.slice(hidden)), run.more_messages ? note(t("run.more_messages")) : null];
}

function messageNode({ role, content, thinking, calls, call_id: answered, tool, status }, tools) {
  const name = hasWord(`role_name.${role}`) ? t(`role_name.${role}`) : outside(role);
  return h(
    "li",
    { class: `message message-${role.replace(/\W/g, "")}` },
    h("p.message-role", name, " ", linkTo("calls", answered, tool || answered), " ", status ? badge(status) : null),
    thinking ? folded(t("run.thinking"), () => codeText(thinking, { piece: 3000 })) : null,
    contentNode(content),
    calls.length ? h("p", "→ ", calls.slice(0, 100).map((id) => [linkTo("calls", id, tools.get(id) ?? id), " "])) : null,
  );
}

function contentNode(content) {
  const label = { piece: 3000, label: t("label.message") };
  if (typeof content === "string") return content ? codeText(content, label) : null;
  if (!Array.isArray(content)) return content === null ? null : jsonView(content, { depth: 2 });
  return content.slice(0, 100).map((part) => (typeof part?.text === "string" ? codeText(part.text, label) : jsonView(part, { depth: 2 })));
}

function answerView(run) {
  const { answer } = run;
  const label = t("label.answer");
  if ((answer ?? null) === null) return note(t("run.nothing_yet"));
  if (typeof answer === "string" || isCut(run, "answer")) return codeText(String(answer), { label });
  if (typeof answer.text !== "string") return jsonView(answer, { depth: 2 });
  const { text, ...rest } = answer;
  return [codeText(text, { label }), folded(t("label.metadata"), () => jsonView(rest, { depth: 2 }))];
}
