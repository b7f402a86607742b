// One waiting call in full: what would run, why a person is asked, and what the person can do.

import { part } from "./api.js";
import { argumentForm, readProblems } from "./argument_form.js";
import { h, longText, outside, show } from "./dom.js";
import { allowAlways, denyOne } from "./inbox_decisions.js";
import { sayCaller, sayDecision } from "./inbox_calls.js";
import { jsonView } from "./json_view.js";
import { badge, button, codeText, duration, facts, fullTime, moment, note, problemBox, verdictLine } from "./parts.js";
import { linkTo } from "./page_parts.js";
import { matchedRules } from "./rule_parts.js";
import { schemaForm } from "./schema_form.js";
import { t } from "./words.js";

const block = (title, ...content) => h("div.section", h("h3", title), content);
const CALL_METHOD = "wieldy/call";

/** Whether a call asks for answers or waits for other calls, and so can't be approved. */
export const isAsking = (item) => Boolean(item.call.requests);

/** Whether the call can be approved as far as is known: not if its tool is another one by now, or if it is one's own. */
export const isOffered = (item) => !isAsking(item) && !item.call.tool_changed && item.call.decidable !== false;

/** Whether the tool is not there now, so that nothing can be checked against its schema. */
export const isMissing = (call) => call.origin?.source === null;

/** Whether only the beginning of the arguments is here. */
export const isCut = (call) => call.cut?.some((each) => each.part === "arguments");

export class InboxDetail {
  constructor(inbox) {
    this.inbox = inbox;
    this.element = h("section.inbox-detail.card", { "aria-label": t("inbox.detail") });
    this.editing = null;
    this.shown = null;
  }

  focus() {
    this.element.querySelector("h2")?.focus();
  }

  show(item) {
    if (!item) {
      this.leaveForm();
      this.shown = null;
      return void show(this.element, h("p.empty", t("inbox.choose")));
    }
    const key = [item.id, item.state, item.busy, item.detailed, item.problem?.message, item.call.cut?.length, this.inbox.reading].join();
    const other = this.shown?.id !== item.id;
    if (!other && this.shown.key === key && !item.outcome) return;
    // What somebody types is not taken away by news about the same call, unless it was decided.
    if (!other && this.form && item.state === "pending") {
      this.showProblem(item);
      return void (this.shown.key = key);
    }
    this.leaveForm();
    this.shown = { id: item.id, key };
    const focused = !other && this.element.contains(document.activeElement);
    show(this.element, this.draw(item));
    if (focused) this.focus();
    if (this.asksPerson(item) && item.state === "pending") this.showQuestions(item);
  }

  leaveForm() {
    this.form = null;
    this.editing = null;
  }

  draw(item) {
    const { call } = item;
    this.trouble = h("div.section.inbox-trouble", { hidden: !item.problem }, item.problem ? problemBox(item.problem) : null);
    this.argumentsBox = block(t("label.arguments"), this.drawArguments(item));
    this.foot = h("div.inbox-foot", this.drawActions(item));
    return [
      h(
        "div.card-head",
        button(t("inbox.back"), () => this.inbox.back(), { kind: "quiet", class: "button quiet inbox-back" }),
        h("h2", { tabindex: "-1" }, outside(call.tool, { class: "tool-name", longest: 200 })),
        badge(item.state),
        h("span.faint.small", sayCaller(call), " · ", moment(call.proposed_at)),
      ),
      item.state === "pending" ? null : this.drawOutcome(item),
      this.trouble,
      item.state === "pending" ? this.drawReason(call) : null,
      this.drawLock(call),
      (this.questionBox = h("div.section", { hidden: true })),
      this.argumentsBox,
      repairList(call.repairs),
      call.description ? block(t("label.description"), h("p.tool-text", longText(call.description))) : null,
      this.drawFacts(call),
      this.foot,
    ];
  }

  drawReason(call) {
    const waits = this.waitedCalls(call);
    const parts = [];
    if (call.reason) parts.push(h("p", longText(call.reason)));
    const rule = call.rule || {};
    if (rule.because_now && rule.because_now !== call.reason) parts.push(h("p.faint", t("inbox.rule_now"), " ", verdictLine({ ...rule, because: rule.because_now })));
    if (rule.matched?.length) parts.push(matchedRules(rule.matched));
    if (call.tool_changed) parts.push(note(t("inbox.tool_changed")));
    if (isMissing(call)) parts.push(note(t("inbox.tool_missing")));
    if (call.origin?.untrusted_session) parts.push(note(t("inbox.untrusted")));
    if (waits.length) parts.push(h("p", t("inbox.waits_for")), h("ul", waits.map((id) => h("li", linkTo("calls", id)))));
    if (!parts.length) parts.push(h("p", t("inbox.no_reason")));
    return block(t("inbox.why"), parts);
  }

  drawLock(call) {
    const lock = call.lock;
    if (!lock || !["changed", "new"].includes(lock.state)) return null;
    return block(t("label.lock"), note(t(`lock.${lock.state}`)), lock.reason ? h("p.faint", longText(lock.reason)) : null, lock.diff ? codeText(lock.diff, { label: t("label.lock") }) : null);
  }

  drawArguments(item) {
    const { call } = item;
    if (isCut(call)) {
      const read = () => this.inbox.calls.readDetail(item.id, true).catch((problem) => this.tell(problem));
      const whole = button(t("call.whole"), read, { kind: "small" });
      return [note(t("inbox.cut")), codeText(String(call.arguments)), item.state === "pending" ? whole : null];
    }
    return argumentTable(call.arguments);
  }

  drawFacts(call) {
    return h(
      "div.section",
      facts({
        caller: outside(call.caller),
        agent: outside(call.agent),
        session: outside(call.session),
        run: linkTo("runs", call.run),
        parent: linkTo("calls", call.parent),
        expires: call.expires_at ? h("span", moment(call.expires_at), " · ", fullTime(call.expires_at)) : null,
        source: call.origin?.source ? [outside(call.origin.source), call.origin.trusted === false ? h("span.faint", ` · ${t("inbox.not_trusted")}`) : null] : null,
        claims: sayClaims(call.claims),
        call: linkTo("calls", call.call_id),
      }),
    );
  }

  drawOutcome(item) {
    const out = item.outcome || {};
    const made = item.decision;
    const value = out.value !== undefined && out.value !== null ? (typeof out.value === "string" ? codeText(out.value) : jsonView(out.value)) : null;
    return h(
      "div.section",
      { role: "status" },
      h("p", { class: ["note", made?.approved && "good"] }, sayDecision(item, this.inbox.me), made?.reason ? [": ", longText(made.reason)] : null),
      out.ended_at || out.error ? h("p", badge(item.state), out.seconds ? ` ${duration(out.seconds)}` : null, out.error ? [" ", longText(out.error)] : null) : null,
      value,
    );
  }

  drawActions(item) {
    if (item.state !== "pending") return h("a.button", { href: `/calls/${part(item.id)}` }, t("inbox.story"));
    if (item.busy) return h("p.faint", { role: "status" }, t("inbox.sending"));
    if (!this.inbox.decides) return h("p.faint", t("inbox.may_look"));
    const offered = isOffered(item);
    const able = offered && item.detailed;
    const known = offered && !isMissing(item.call);
    if (this.inbox.reading) return h("p.faint", { role: "status" }, t("inbox.reading"));
    // Every button has its place before it can be pressed: nobody who means another one lets the call run.
    return h(
      "div.actions",
      item.call.decidable === false && h("p.faint", t("problem.own_call")),
      offered && button(t("inbox.approve"), () => this.inbox.calls.decide(item, "approve", {}), { kind: "primary", keys: "a", disabled: !able || isCut(item.call) }),
      known && button(t("inbox.edit"), () => this.edit(item), { keys: "e", disabled: !able }),
      button(t("inbox.deny"), () => denyOne(this.inbox, item), { kind: "danger", keys: "d" }),
      !item.detailed && !item.problem && h("p.faint", { role: "status" }, t("inbox.reading")),
      able && known && this.inbox.administers && button(t("inbox.always"), () => allowAlways(this.inbox, item), { kind: "quiet", keys: "r" }),
    );
  }

  tell(problem) {
    this.trouble.hidden = !problem;
    show(this.trouble, problem && problemBox(problem));
  }

  showProblem(item) {
    this.tell(item.problem);
    if (item.problem && this.form) this.form.setProblems(readProblems(item.problem));
    for (const each of this.foot.querySelectorAll("button")) each.disabled = item.busy;
  }

  // Questions of a tool

  waitedCalls(call) {
    return Object.entries(call.requests || {}).filter(([, each]) => each?.method === CALL_METHOD).map(([id]) => id);
  }

  asksPerson(item) {
    return isAsking(item) && !item.call.tool_changed && typeof item.call.requests === "object" && this.waitedCalls(item.call).length === 0;
  }

  showQuestions(item) {
    if (!item.call.questions) return;
    const questions = item.call.questions.map((each) => makeQuestion(each));
    const answer = (action) => {
      questions.forEach(({ form }) => {
        form?.setProblems([]);
        form?.reveal();
      });
      const answers = {};
      for (const { name, form } of questions) {
        try {
          answers[name] = action === "accept" && form ? { action, content: form.read() } : { action };
        } catch (problem) {
          return form.setProblems([problem]);
        }
      }
      return this.inbox.calls.decide(item, "answer", { answers });
    };
    this.form = questions.find((each) => each.form)?.form || null;
    this.questionBox.hidden = false;
    show(
      this.questionBox,
      h("h3", t("inbox.questions")),
      questions.map((each) => each.element),
      h("div.actions", button(t("inbox.answer"), () => answer("accept"), { kind: "primary" }), button(t("inbox.decline"), () => answer("decline"))),
    );
  }

  // Editing

  async edit(item) {
    if (this.editing) return this.form.focus();
    const [found] = await this.inbox.readWhole([item]);
    // What is read may say that the tool is another one by now.
    const able = found && isOffered(item) && !isMissing(item.call);
    if (able && this.shown?.id === item.id) this.startForm(item, item.call.input_schema);
  }

  startForm(item, schema) {
    this.editing = item;
    this.form = argumentForm(schema, item.call.arguments, { tool: item.call.tool, call_id: item.id });
    const leave = (event) => {
      if (event.key === "Escape") this.cancelEdit(item);
    };
    show(this.argumentsBox, h("h3", t("label.arguments")), h("div", { on: { keydown: leave } }, this.form.element));
    show(
      this.foot,
      h("div.actions", button(t("inbox.approve_edited"), () => this.submitEdit(), { kind: "primary" }), button(t("action.cancel"), () => this.cancelEdit(item))),
    );
    this.form.focus();
  }

  cancelEdit(item) {
    this.leaveForm();
    this.shown = null;
    this.show(item);
    this.focus();
  }

  async submitEdit() {
    const item = this.editing;
    this.form.reveal();
    try {
      await this.inbox.calls.decide(item, "approve", { arguments: this.form.read() });
    } catch (problem) {
      this.form.setProblems([problem]);
    }
  }
}

function makeQuestion({ name, kind, message, answer_schema: schema, url }) {
  const form = kind === "form" ? schemaForm(schema, {}, {}) : null;
  const address = url ? h("p", t("inbox.address"), " ", outside(url, { class: "mono", longest: 2000 })) : null;
  return { name, form, element: h("div.question", h("p", outside(message || name, { longest: 5000 })), address, form?.element) };
}

function valueText(value) {
  return outside(typeof value === "string" ? value : JSON.stringify(value), { class: "mono", longest: 300 });
}

/** What the caller's token said, as far as the call depends on it: digests, for a comparison. */
function sayClaims(claims) {
  const names = Object.keys(claims || {});
  if (!names.length) return null;
  return names.map((name) => h("div", outside(name), " ", h("code", { title: claims[name] }, claims[name].slice(0, 12))));
}

export function repairList(repairs) {
  if (!Array.isArray(repairs) || !repairs.length) return null;
  const row = (each) => h("li", outside(each.path || "·", { class: "mono" }), ": ", h("del", valueText(each.before)), " → ", h("ins", valueText(each.after)), h("span.faint", " ", outside(String(each.kind || "").replaceAll("_", " "))));
  return block(t("inbox.repairs"), h("ul.repairs", repairs.slice(0, 100).map(row)));
}

/** Arguments, one to a row, so that every one is read. */
export function argumentTable(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return jsonView(value);
  const names = Object.keys(value);
  if (!names.length) return h("p.faint", t("inbox.no_arguments"));
  const shown = names.slice(0, 200);
  const list = h("dl.arguments", shown.map((name) => h("div", h("dt", outside(name, { longest: 200 })), h("dd", readable(value[name])))));
  return names.length > shown.length ? [list, jsonView(value, { depth: 0 })] : list;
}

function readable(value) {
  if (typeof value === "string" && value !== "") return value.length > 200 || value.includes("\n") ? codeText(value, { piece: 4000 }) : h("bdi.argument-text", outside(value, { longest: 200 }).textContent);
  return jsonView(value, { depth: 3 });
}
