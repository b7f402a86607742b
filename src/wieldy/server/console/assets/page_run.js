// One run of an agent: its tree of rounds, calls and inner runs, its conversation, and resume it.
import { get, part, post, writeJson } from "./api.js";
import { cutNote, isCut } from "./content_blocks.js";
import { h, outside, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { onEvent } from "./live.js";
import { callName } from "./page_calls.js";
import { calmly, folded, leaving, linkTo, onReturn, section } from "./page_parts.js";
import { runBadge } from "./page_runs.js";
import { amount, announce, badge, button, codeText, duration, facts, moment, problemBox } from "./parts.js";
import { hasWord, t } from "./words.js";

const MESSAGES_AT_FIRST = 50;
const MOST_CALLS = 300;

export default {
  path: "/runs/:run_id",
  nav: null,
  under: "runs",
  title: "run.title",
  role: "call",
  async show(root, { params }) {
    const here = leaving();
    const page = new RunPage(params.run_id);
    root.append(page.element);
    await page.load();
    const reload = calmly(500, () => page.load());
    here.keep(reload.stop);
    here.keep(onReturn(reload));
    here.keep(
      onEvent(["call", "pending", "reset"], (call, name) => {
        if (name === "reset" || page.ids.has(call.run)) reload();
      }),
    );
    return here.stop;
  },
};

class RunPage {
  constructor(id) {
    Object.assign(this, { id, ids: new Set([id]), whole: false, asked: 0 });
    this.trouble = h("div", {});
    this.head = h("div", {}, h("h1", {}, t("run.title")));
    this.body = h("div", {});
    this.element = h("div", {}, this.head, this.trouble, this.body);
  }

  async load() {
    this.asked += 1;
    const mine = this.asked;
    try {
      const run = await get(`/runs/${part(this.id)}`, this.whole ? { whole: true } : {});
      if (mine === this.asked) this.put(run);
    } catch (problem) {
      if (mine !== this.asked) return;
      this.text = null;
      show(this.body, problemBox(problem));
    }
  }

  put(run) {
    const text = writeJson(run);
    // A run that has not changed stays as it is, with what was opened.
    if (text === this.text) return;
    this.text = text;
    this.ids = new Set(idsOf(run));
    show(this.head, this.heading(run), cutNote(run, () => this.loadWhole()));
    show(
      this.body,
      run.error ? section(t("call.error"), codeText(run.error, { label: t("call.error") })) : null,
      section(t("run.tree"), h("ul", { class: "tree" }, runNode(run, true))),
      section(t("run.conversation"), conversation(run)),
      section(t("run.answer"), answerView(run)),
    );
  }

  heading(run) {
    return h(
      "div",
      {},
      h("p", { class: "crumbs" }, h("a", { href: "/runs" }, t("runs.title"))),
      h(
        "div",
        { class: "page-head" },
        h("h1", {}, outside(run.agent || run.run_id)),
        runBadge(run.state),
        run.resumable ? button(t("run.resume"), (event) => this.resume(event.currentTarget), { kind: "primary" }) : null,
      ),
      facts(
        [t("run.id"), h("code", {}, outside(run.run_id))],
        [t("run.parent"), run.parent && linkTo("runs", run.parent)],
        [t("calls.session"), run.session && outside(run.session)],
        [t("runs.steps"), amount(run.steps)],
        [t("runs.began"), moment(run.created_at)],
        [t("runs.changed"), moment(run.changed_at)],
        [t("run.usage"), usageText(run.usage)],
      ),
    );
  }

  loadWhole() {
    this.whole = true;
    return this.load();
  }

  async resume(pressed) {
    pressed.disabled = true;
    show(this.trouble);
    try {
      await post(`/runs/${part(this.id)}/resume`);
      announce(t("run.resumed"));
      await this.load();
    } catch (problem) {
      show(this.trouble, problemBox(problem));
    }
    pressed.disabled = false;
  }
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

/** A run as a branch; inner runs are made when they are opened, however deep they go. */
function runNode(run, open) {
  const content = () => [
    h("ul", {}, run.rounds.slice(0, MOST_CALLS).map((round) => roundNode(round)), run.runs.map((inner) => runNode(inner, false))),
    run.rounds.length || run.runs.length ? null : h("p", { class: "note" }, t("run.no_calls")),
  ];
  const title = h("span", {}, open ? outside(run.agent) : linkTo("runs", run.run_id, run.agent || run.run_id), " ", runBadge(run.state));
  if (open) return h("li", {}, title, content());
  return h("li", {}, folded(title, () => h("div", {}, content())));
}

function roundNode(round) {
  const number = /^\d+$/.test(round.place) ? t("run.round", { number: Number(round.place) + 1 }) : outside(round.place);
  return h("li", {}, h("span", { class: "round" }, number), h("ul", {}, round.calls.slice(0, MOST_CALLS).map(callNode)));
}

function callNode(call) {
  return h(
    "li",
    {},
    callName(call),
    " ",
    badge(call.state),
    " ",
    call.seconds === null ? null : h("span", { class: "faint" }, duration(call.seconds)),
    call.error ? h("div", { class: "error-text" }, outside(call.error)) : null,
    call.inner_run ? h("ul", {}, runNode(call.inner_run, false)) : null,
  );
}

function conversation(run) {
  const tools = new Map(run.rounds.flatMap((round) => round.calls.map((call) => [call.call_id, call.tool])));
  const items = (some) => h("ol", { class: "messages" }, some.map((message) => messageNode(message, tools)));
  const hidden = Math.max(0, run.messages.length - MESSAGES_AT_FIRST);
  const earlier = hidden ? folded(t("run.earlier", { count: hidden }), () => items(run.messages.slice(0, hidden))) : null;
  return h("div", {}, earlier, items(run.messages.slice(hidden)), run.more_messages ? h("p", { class: "note" }, t("run.more_messages")) : null);
}

function messageNode({ role, content, thinking, calls, call_id: answered, tool, status }, tools) {
  const name = hasWord(`role_name.${role}`) ? t(`role_name.${role}`) : outside(role);
  return h(
    "li",
    { class: `message message-${role.replace(/\W/g, "")}` },
    h("p", { class: "message-role" }, name, " ", answered ? linkTo("calls", answered, tool || answered) : null, " ", status ? badge(status) : null),
    thinking ? folded(t("run.thinking"), () => codeText(thinking, { piece: 3000 })) : null,
    contentNode(content),
    calls.length ? h("p", {}, "→ ", calls.slice(0, 100).map((id) => [linkTo("calls", id, tools.get(id) ?? id), " "])) : null,
  );
}

function contentNode(content) {
  const label = { piece: 3000, label: t("run.message") };
  if (typeof content === "string") return content ? codeText(content, label) : null;
  if (!Array.isArray(content)) return content === null ? null : jsonView(content, { depth: 2 });
  return content.slice(0, 100).map((part) => (typeof part?.text === "string" ? codeText(part.text, label) : jsonView(part, { depth: 2 })));
}

/** An answer has a text, and facts about it. */
function answerView(run) {
  const { answer } = run;
  if (typeof answer?.text !== "string") return valueView(run, "answer");
  const { text, ...rest } = answer;
  return h("div", {}, codeText(text, { label: t("run.answer") }), folded(t("call.metadata"), () => jsonView(rest, { depth: 2 })));
}

function valueView(run, name) {
  const value = run[name];
  if (value === null || value === undefined) return h("p", { class: "note" }, t("run.nothing_yet"));
  return typeof value === "string" || isCut(run, name) ? codeText(String(value), { label: t(`run.${name}`) }) : jsonView(value, { depth: 2 });
}
