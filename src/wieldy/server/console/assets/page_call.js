// One call: its whole story, what it was given, what it answered, and the calls that it made.
import { address, get, hasRole, part, post, writeJson } from "./api.js";
import { RunningCalls, showProgress } from "./call_progress.js";
import { isCut, resultView, wholeView } from "./content_blocks.js";
import { h, outside, show } from "./dom.js";
import { repairList } from "./inbox_detail.js";
import { jsonView } from "./json_view.js";
import { onEvent } from "./live.js";
import { callName, whose } from "./page_calls.js";
import { calmly, dataTable, folded, leaving, linkTo, onReturn, pathWith, section } from "./page_parts.js";
import { amount, announce, badge, button, codeText, duration, facts, moment, problemBox } from "./parts.js";
import { t } from "./words.js";

const RUNS = new Set(["started", "approved"]);

export default {
  path: "/calls/:call_id",
  nav: null,
  under: "calls",
  title: "call.title",
  role: "call",
  async show(root, { params, me }) {
    const here = leaving();
    const page = new CallPage(root, params.call_id, me, here);
    await page.load();
    const reload = calmly(300, () => page.load());
    here.keep(reload.stop);
    here.keep(onReturn(reload));
    here.keep(
      onEvent(["call", "pending", "reset"], (call, name) => {
        if (name === "reset" || call.call_id === page.id || call.parent === page.id) reload();
      }),
    );
    return () => {
      here.stop();
      page.pictures.stop();
    };
  },
};

class CallPage {
  constructor(root, id, me, here) {
    Object.assign(this, { root, id, me, asked: 0, pictures: leaving() });
    this.running = new RunningCalls();
    this.live = h("div", { class: "live" });
    this.head = h("div", {}, h("h1", {}, t("call.title")));
    this.body = h("div", {});
    root.append(this.head, this.live, this.body);
    here.keep(this.running.follow((changed) => changed === id && this.tellProgress()));
  }

  async load() {
    this.asked += 1;
    const mine = this.asked;
    try {
      const call = await get(`/calls/${part(this.id)}`);
      if (mine === this.asked) this.put(call);
    } catch (problem) {
      if (mine !== this.asked) return;
      this.text = null;
      show(this.body, problemBox(problem));
    }
  }

  put(call) {
    const text = writeJson(call);
    // A call that has not changed stays as it is, with what was opened.
    if (text === this.text) return;
    this.text = text;
    this.call = call;
    this.running.begin(this.id, call);
    show(this.head, this.heading(call));
    this.tellProgress();
    this.pictures.stop();
    show(
      this.body,
      section(t("call.story"), timeline(call)),
      section(t("call.arguments"), argumentsView(call)),
      hasEnded(call) ? section(t("call.result"), ...this.resultParts(call)) : null,
      call.children.length ? section(t("call.children"), childTable(call)) : null,
      folded(t("call.metadata"), () => partView(call, "metadata"), { class: "part" }),
    );
  }

  resultParts(call) {
    const views = resultView(call, this.pictures.keep);
    const error = call.error ? h("div", { class: "error-text" }, codeText(call.error, { label: t("call.error") })) : null;
    if (error) return [error];
    return views.length ? views : [h("p", { class: "note" }, t("call.nothing"))];
  }

  heading(call) {
    const mine = call.caller !== null && call.caller === this.me.name;
    const stops = RUNS.has(call.state) && (mine || hasRole(this.me, "administer"));
    return h(
      "div",
      {},
      h("p", { class: "crumbs" }, h("a", { href: "/calls" }, t("calls.title"))),
      h(
        "div",
        { class: "page-head" },
        h("h1", {}, outside(call.tool)),
        badge(call.state),
        stops ? button(t("call.interrupt"), (event) => this.interrupt(event.currentTarget), { kind: "danger" }) : null,
        call.state === "pending" ? h("a", { class: "button", href: pathWith("/inbox", { call: call.call_id }) }, t("calls.decide")) : null,
      ),
      callFacts(call),
    );
  }

  tellProgress() {
    if (this.call && RUNS.has(this.call.state)) showProgress(this.live, this.running.find(this.id), 200);
    else show(this.live);
  }

  async interrupt(button) {
    button.disabled = true;
    try {
      await post(`/calls/${part(this.id)}/interrupt`);
      announce(t("call.interrupted"));
    } catch (problem) {
      show(this.live, problemBox(problem));
    }
    button.disabled = false;
  }
}

function hasEnded(call) {
  return call.ended_at !== null || call.error !== null;
}

function callFacts(call) {
  return facts(
    [t("call.id"), h("code", {}, outside(call.call_id))],
    [t("calls.tool"), linkTo("tools", call.tool)],
    [t("calls.caller"), whose(call)],
    [t("calls.session"), call.session && outside(call.session)],
    [t("call.agent"), call.agent === call.caller ? null : outside(call.agent)],
    [t("call.run"), call.run && linkTo("runs", call.run)],
    [t("call.parent"), call.parent && linkTo("calls", call.parent)],
    [t("calls.when"), call.proposed_at && moment(call.proposed_at)],
    [t("calls.took"), call.seconds === null ? null : duration(call.seconds)],
    [t("call.attempts"), call.attempts > 1 ? String(call.attempts) : null],
  );
}

function timeline(call) {
  const began = call.story.length ? new Date(call.story[0].at) : null;
  return h("ol", { class: "timeline" }, call.story.map((line) => timelineEntry(line, began)));
}

function timelineEntry({ at, kind, by, text, state, count }, began) {
  const seconds = (new Date(at) - began) / 1000;
  return h(
    "li",
    { class: `story-${state || kind}` },
    h("span", { class: "story-kind" }, t(`story.${kind}`)),
    state ? badge(state) : null,
    count ? h("span", {}, t("story.times", { count: amount(count) })) : null,
    by ? h("span", { class: "story-by" }, t("story.by"), " ", outside(by)) : null,
    h("span", { class: "story-at" }, moment(at), seconds > 0 ? ` +${duration(seconds)}` : null),
    text ? h("div", { class: "story-text" }, outside(text, { longest: 2000 })) : null,
  );
}

function argumentsView(call) {
  const partial = call.arguments_whole ? null : h("p", { class: "note" }, t("call.partial"));
  return h("div", {}, partView(call, "arguments"), partial, repairList(call.metadata?.repairs));
}

/** The arguments or the metadata; what was cut of them is read on demand. */
function partView(call, name) {
  if (!isCut(call, name)) return jsonView(call[name], { depth: 2 });
  return h("div", {}, codeText(call[name]), wholeView(address(`/calls/${part(call.call_id)}/raw/${name}`)));
}

function childTable(call) {
  const rows = call.children.map((child) => [
    callName(child),
    badge(child.state),
    child.proposed_at ? moment(child.proposed_at) : "",
    child.seconds === null ? "" : duration(child.seconds),
    child.error ? outside(child.error) : "",
  ]);
  const table = dataTable(t("call.children"), ["calls.tool", "calls.state", "calls.when", "calls.took", "calls.says"], rows);
  return h("div", {}, table, call.more_children ? h("p", { class: "note" }, t("call.more_children")) : null);
}
