// One call: its whole story, what it was given, what it answered, and the calls that it made.
import { address, get, hasRole, part, post } from "./api.js";
import { isRunning, RunningCalls, showProgress } from "./call_progress.js";
import { isCut, resultView, wholeView } from "./content_blocks.js";
import { h, longText, outside, show } from "./dom.js";
import { repairList } from "./inbox_detail.js";
import { jsonView } from "./json_view.js";
import { callName, callTimes, decideLink, whose } from "./page_calls.js";
import { dataTable, folded, followCalls, linkTo, loader, onReturn, pageHead, section } from "./page_parts.js";
import { amount, announce, badge, button, codeText, duration, errorText, facts, moment, note, toneOf } from "./parts.js";
import { t } from "./words.js";

export default {
  path: "/calls/:call_id",
  title: "call",
  async show(root, { params, me, keep }) {
    const page = new CallPage(root, params.call_id, me, keep);
    await page.load();
    keep(onReturn(page.load));
    followCalls({ keep }, 300, page.load, (call) => call.call_id === page.id || call.parent === page.id);
  },
};

class CallPage {
  constructor(root, id, me, keep) {
    Object.assign(this, { id, me });
    this.running = new RunningCalls();
    this.live = h("div.live");
    this.head = h("div", h("h1", t("label.call")));
    this.body = h("div");
    this.load = loader(this.body, () => get(`/calls/${part(id)}`), (call) => this.put(call));
    root.append(this.head, this.live, this.body);
    keep(this.running.follow((changed) => changed === id && this.tellProgress()));
  }

  put(call) {
    this.call = call;
    this.running.begin(this.id, call);
    show(this.head, this.heading(call), callFacts(call));
    this.tellProgress();
    show(
      this.body,
      section(t("label.story"), timeline(call)),
      section(t("label.arguments"), argumentsView(call)),
      hasEnded(call) ? section(t("label.result"), this.resultParts(call)) : null,
      call.children.length ? section(t("call.children"), childTable(call)) : null,
      folded(t("label.metadata"), () => partView(call, "metadata"), { class: "part" }),
    );
  }

  resultParts(call) {
    if (call.error) return h("div.error-text", errorText(call.error));
    const views = resultView(call);
    return views.length ? views : note(t("call.nothing"));
  }

  heading(call) {
    const mine = call.caller !== null && call.caller === this.me.name;
    const stops = isRunning(call) && (mine || hasRole(this.me, "administer"));
    return pageHead(
      "calls",
      call.tool,
      badge(call.state),
      stops ? button(t("call.interrupt"), () => this.interrupt(), { kind: "danger", trouble: this.live }) : null,
      decideLink(call, { class: "button" }),
    );
  }

  tellProgress() {
    if (this.call && isRunning(this.call)) showProgress(this.live, this.running.find(this.id), 200);
    else show(this.live);
  }

  async interrupt() {
    await post(`/calls/${part(this.id)}/interrupt`);
    announce(t("call.interrupted"));
  }
}

function hasEnded(call) {
  return call.ended_at !== null || call.error !== null;
}

function callFacts(call) {
  const [when, took] = callTimes(call);
  return facts({
    call: h("code", outside(call.call_id)),
    tool: linkTo("tools", call.tool),
    caller: whose(call),
    session: outside(call.session),
    agent: call.agent === call.caller ? null : outside(call.agent),
    run: linkTo("runs", call.run),
    parent: linkTo("calls", call.parent),
    when,
    took,
    attempts: call.attempts > 1 ? String(call.attempts) : null,
  });
}

function timeline({ story }) {
  return h("ol.timeline", story.map((line) => timelineEntry(line, new Date(story[0].at))));
}

function timelineEntry({ at, kind, by, text, state, count }, began) {
  const seconds = (new Date(at) - began) / 1000;
  return h(
    "li",
    { class: toneOf(state || kind) },
    h("span.story-kind", t(`story.${kind}`)),
    state ? badge(state) : null,
    count ? h("span", t("story.times", { count, amount: amount(count) })) : null,
    by ? h("span", t("story.by"), " ", outside(by)) : null,
    h("span.faint", moment(at), seconds > 0 ? ` +${duration(seconds)}` : null),
    text ? h("div.story-text.faint", longText(text)) : null,
  );
}

function argumentsView(call) {
  const partial = call.arguments_whole ? null : note(t("call.partial"));
  return [partView(call, "arguments"), partial, repairList(call.metadata?.repairs)];
}

function partView(call, name) {
  if (!isCut(call, name)) return jsonView(call[name], { depth: 2 });
  return h("div", codeText(call[name]), wholeView(address(`/calls/${part(call.call_id)}/raw/${name}`)));
}

function childTable(call) {
  const rows = call.children.map((child) => [
    callName(child),
    badge(child.state),
    ...callTimes(child),
    outside(child.error),
  ]);
  const table = dataTable(t("call.children"), ["tool", "state", "when", "took", "says"], rows);
  return h("div", table, call.more_children ? note(t("call.more_children")) : null);
}
