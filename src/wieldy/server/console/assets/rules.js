// Rules and modes: what decides on calls, and a try-out that asks what would become of a call.

import { del, get, hasRole, part, put } from "./api.js";
import { h, longText, outside, shortText, show } from "./dom.js";
import { dataTable, loader } from "./page_parts.js";
import { announce, badge, button, choice, codeText, dialog, emptyState, field, moment, scrollBox, textInput } from "./parts.js";
import { showNewRule } from "./rule_editor.js";
import { sayConditions, sayHolder } from "./rule_parts.js";
import { makeTryOut } from "./rule_tryout.js";
import { t } from "./words.js";

// From the laxest to the strictest.
const MODES = ["bypass", "accept-edits", "ask", "dont-ask", "dry-run", "read-only"];

export default {
  path: "/rules",
  role: "approve",
  async show(root, context) {
    await new RulesPage(root, context).load();
  },
};

class RulesPage {
  constructor(root, { me, query, setQuery }) {
    this.changes = hasRole(me, "administer");
    this.rules = h("div");
    this.modes = h("div");
    this.held = h("div");
    this.loadRules = loader(this.rules, () => get("/rules"), ({ rules }) => show(this.rules, this.drawRules(rules)));
    this.loadModes = loader(this.modes, () => get("/modes"), ({ modes }) => show(this.modes, this.drawModes(modes)));
    this.tryOut = makeTryOut({ tool: query.get("tool") || "", onTool: (tool) => setQuery({ tool }) });
    const newRule = button(t("rules.add"), () => showNewRule(() => this.changed(t("rule.made"))), { kind: "primary small" });
    const newMode = button(t("modes.set"), () => this.showNewMode(), { kind: "small" });
    const boxes = h("div", card(t("rules.rules"), this.rules, this.changes && newRule), card(t("rules.modes"), this.modes, this.changes && newMode), this.held);
    show(root, h("div.page-head", h("h1", t("label.rules"))), h("div.rules-page", boxes, this.tryOut.element));
  }

  async load() {
    await Promise.all([this.loadRules(), this.loadModes(), this.loadHeld(), this.tryOut.load()]);
  }

  async changed(text) {
    announce(text);
    await Promise.all([this.loadRules(), this.loadModes()]);
    this.tryOut.check();
  }

  drawRules(rules) {
    if (!rules.length) return emptyState(t("rules.none"));
    const remove = (rule) => this.removal(t("rules.remove_one", { rule: shortText(rule.pattern) }), () => this.askRemoval(rule));
    const maker = (rule) => [outside(rule.by, { longest: 60 }) ?? t("who.somebody"), h("div.faint.small", moment(rule.made_at))];
    const row = (rule) => [
      [
        h("div", { class: rule.dead && "dead" }, sayRule(rule)),
        rule.reason ? h("div.faint.small", longText(rule.reason)) : null,
        rule.dead ? h("div.small.bad", t("rules.dead"), " ", outside(rule.dead)) : null,
      ],
      badge(rule.verdict),
      h("div", sayHolder(rule)),
      h("div", rule.id === null ? t("rules.of_program") : maker(rule)),
      rule.expires_at ? moment(rule.expires_at) : t("rules.no_end"),
      rule.id === null ? null : remove(rule),
    ];
    return scrollBox(t("rules.rules"), dataTable(t("rules.rules"), ["calls", "verdict", "holder", "maker", "expires", null], rules.map(row)));
  }

  removal(label, run) {
    return this.changes ? button(t("action.remove"), run, { kind: "quiet small", "aria-label": label, trouble: this.modes }) : null;
  }

  askRemoval(rule) {
    const run = async () => {
      await del(`/rules/${part(rule.id)}`);
      this.changed(t("rules.removed"));
    };
    dialog(t("rules.remove_title"), h("p", badge(rule.verdict), " ", sayRule(rule)), { text: t("action.remove"), kind: "danger", run });
  }

  drawModes(modes) {
    if (!modes.length) return h("p.card-body.faint", t("modes.none"));
    const row = (each) =>
      h(
        "li.mode-row",
        h("span.mono", each.mode),
        h("span", sayHolder(each), h("span.faint.small", ` · ${t(`mode.${each.mode}`)}`)),
        this.removal(t("modes.remove_one", { mode: each.mode }), () => this.askModeRemoval(each)),
      );
    return h("ul", modes.map(row));
  }

  askModeRemoval(each) {
    const run = () => this.setMode({ ...each, mode: null });
    dialog(t("modes.remove_one", { mode: each.mode }), h("p", sayHolder(each)), { text: t("action.remove"), kind: "danger", run });
  }

  async setMode(wanted) {
    await put("/modes", wanted);
    this.changed(t("modes.changed"));
  }

  showNewMode() {
    const meaning = h("p.faint", t("mode.ask"));
    const mode = choice(MODES.map((each) => [each, each]), "ask", (value) => show(meaning, t(`mode.${value}`)));
    const agent = textInput();
    const session = textInput();
    const hint = t("modes.every_one");
    const fields = [field(t("label.mode"), mode), meaning, field(t("label.agent"), agent, { hint }), field(t("label.session"), session, { hint })];
    const run = () => this.setMode({ mode: mode.value, agent: agent.value.trim() || null, session: session.value.trim() || null });
    dialog(t("modes.set"), fields, { text: t("action.save"), kind: "primary", run });
  }

  async loadHeld() {
    const { changes } = await get("/lock-changes").catch(() => ({ changes: [] }));
    if (!changes.length) return;
    const line = (each) => h("div.section", h("p", outside(each.tool, { class: "tool-name" }), " ", badge(each.blocked ? "deny" : "ask"), " ", h("span.faint", longText(each.reason))), each.diff ? codeText(each.diff) : null);
    show(this.held, card(t("rules.held"), changes.slice(0, 200).map(line)));
  }
}

function sayRule(rule) {
  return [outside(rule.pattern, { class: "mono" }), sayConditions({ ...rule.where, ...rule.criteria })];
}

function card(title, body, action) {
  return h("section.card", h("div.card-head", h("h2", title), h("div.actions", action)), body);
}
