// Rules and modes: what decides on calls, and a try-out that asks what would become of a call.

import { del, get, hasRole, part, put } from "./api.js";
import { escapeText, h, outside, show } from "./dom.js";
import { sayConditions, sayHolder } from "./rule_parts.js";
import { showNewRule } from "./rule_editor.js";
import { makeTryOut } from "./rule_tryout.js";
import { announce, badge, button, choice, codeText, dialog, emptyState, field, moment, problemBox } from "./parts.js";
import { t } from "./words.js";

// From the laxest to the strictest.
const MODES = ["bypass", "accept-edits", "ask", "dont-ask", "dry-run", "read-only"];

export default {
  path: "/rules",
  nav: "rules",
  title: "rules.title",
  role: "approve",
  async show(root, context) {
    const page = new RulesPage(root, context);
    await page.load();
  },
};

class RulesPage {
  constructor(root, { me, query, setQuery }) {
    this.changes = hasRole(me, "administer");
    this.rulesBox = h("div");
    this.modesBox = h("div");
    this.heldBox = h("div");
    this.tryOut = makeTryOut({ tool: query.get("tool") || "", onTool: (tool) => setQuery({ tool }) });
    const newRule = button(t("rules.add"), () => showNewRule({ onMade: () => this.changed(t("rule.made")) }), { kind: "primary small" });
    const newMode = button(t("modes.set"), () => this.showNewMode(), { kind: "small" });
    show(
      root,
      h("div.page-head", h("h1", t("rules.title"))),
      h(
        "div.rules-page",
        h(
          "div",
          {},
          card(t("rules.rules"), this.rulesBox, this.changes ? newRule : null),
          card(t("rules.modes"), this.modesBox, this.changes ? newMode : null),
          this.heldBox,
        ),
        this.tryOut.element,
      ),
    );
  }

  async load() {
    await Promise.all([this.loadRules(), this.loadModes(), this.loadHeld(), this.tryOut.load()]);
  }

  async changed(text) {
    announce(text);
    await Promise.all([this.loadRules(), this.loadModes()]);
    this.tryOut.ask();
  }

  async loadRules() {
    try {
      const { rules } = await get("/rules");
      show(this.rulesBox, rules.length ? this.drawRules(rules) : emptyState(t("rules.none"), h("p.faint.small", t("rules.none_more"))));
    } catch (problem) {
      show(this.rulesBox, problemBox(problem));
    }
  }

  drawRules(rules) {
    const row = (rule) =>
      h(
        "tr",
        { class: rule.dead ? "dead" : null },
        h("td", badge(rule.verdict)),
        h("td", outside(rule.pattern, { class: "mono" }), sayConditions({ ...rule.where, ...rule.criteria }), rule.reason ? h("div.faint.small", outside(rule.reason, { longest: 1000 })) : null, rule.dead ? h("div.small.bad", t("rules.dead"), " ", outside(rule.dead)) : null),
        h("td", sayHolder(rule)),
        h("td", rule.id === null ? h("span.faint", t("rules.of_program")) : [rule.by ? outside(rule.by, { longest: 60 }) : t("who.somebody"), h("div.faint.small", moment(rule.made_at))]),
        h("td", rule.expires_at ? moment(rule.expires_at) : h("span.faint", t("rules.no_end"))),
        h("td.right", rule.id !== null && this.changes ? button(t("remove"), () => this.askRemoval(rule), { kind: "quiet small", "aria-label": t("rules.remove_one", { rule: escapeText(rule.pattern).slice(0, 100) }) }) : null),
      );
    const heads = ["rules.verdict", "rules.calls", "rule.who", "rules.made", "fact.expires"].map((name) => h("th", { scope: "col" }, t(name)));
    return h("div.table-box", { tabindex: "0", role: "region", "aria-label": t("rules.rules") }, h("table.stacked", h("thead", h("tr", heads, h("td"))), h("tbody", rules.map(row))));
  }

  askRemoval(rule) {
    dialog(t("rules.remove_title"), h("p", badge(rule.verdict), " ", outside(rule.pattern, { class: "mono" }), sayConditions({ ...rule.where, ...rule.criteria })), [
      {
        text: t("remove"),
        kind: "danger",
        run: async () => {
          await del(`/rules/${part(rule.id)}`);
          this.changed(t("rules.removed"));
        },
      },
    ]);
  }

  async loadModes() {
    try {
      this.drawModes((await get("/modes")).modes);
    } catch (problem) {
      show(this.modesBox, problemBox(problem));
    }
  }

  drawModes(modes) {
    const row = (each) =>
      h(
        "li.mode-row",
        h("span.mono", each.mode),
        h("span", sayHolder(each), h("span.faint.small", ` · ${t(`mode.${each.mode}`)}`)),
        this.changes ? button(t("remove"), () => this.setMode({ ...each, mode: null }), { kind: "quiet small", "aria-label": t("modes.remove_one", { mode: each.mode }) }) : null,
      );
    show(this.modesBox, modes.length ? h("ul", modes.map(row)) : h("p.card-body.faint", t("modes.none")));
  }

  async setMode(wanted) {
    try {
      const { modes } = await put("/modes", wanted);
      this.drawModes(modes);
      this.changed(t("modes.changed"));
    } catch (problem) {
      show(this.modesBox, problemBox(problem));
    }
  }

  showNewMode() {
    const meaning = h("p.faint", t("mode.ask"));
    const mode = choice(MODES.map((each) => [each, each]), "ask", (value) => show(meaning, t(`mode.${value}`)));
    const agent = h("input", { type: "text", maxlength: "500" });
    const session = h("input", { type: "text", maxlength: "500" });
    dialog(t("modes.set"), [field(t("modes.mode"), mode), meaning, field(t("fact.agent"), agent, { hint: t("modes.every_one") }), field(t("fact.session"), session, { hint: t("modes.every_one") })], [
      {
        text: t("save"),
        kind: "primary",
        run: async () => {
          await put("/modes", { mode: mode.value, agent: agent.value.trim() || null, session: session.value.trim() || null });
          this.changed(t("modes.changed"));
        },
      },
    ]);
  }

  async loadHeld() {
    const { changes } = await get("/lock-changes").catch(() => ({ changes: [] }));
    if (!changes.length) return;
    const line = (each) => h("div.section", h("p", outside(each.tool, { class: "tool-name" }), " ", badge(each.blocked ? "deny" : "ask"), " ", h("span.faint", outside(each.reason, { longest: 1000 }))), each.diff ? codeText(each.diff) : null);
    show(this.heldBox, card(t("rules.held"), changes.slice(0, 200).map(line)));
  }
}

function card(title, body, action) {
  return h("section.card", h("div.card-head", h("h2", title), action ? h("div.actions.card-actions", action) : null), body);
}
