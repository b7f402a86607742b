// Make a standing rule from nothing.

import { post } from "./api.js";
import { h } from "./dom.js";
import { button, choice, dialog, field } from "./parts.js";
import { lifeChoices } from "./rule_parts.js";
import { t } from "./words.js";

const TRAITS = ["read_only", "destructive", "open_world", "untrusted"];

/** Ask for a rule; `onMade` is called when it holds. */
export function showNewRule({ onMade, tool = "" }) {
  const verdict = choice(["allow", "ask", "deny"].map((each) => [each, t(`state.${each}`)]), "ask", () => (reason.parentElement.hidden = verdict.value === "allow"));
  const pattern = h("input", { type: "text", value: tool, maxlength: "500", required: true, placeholder: "delete_*" });
  const conditions = h("div.rule-conditions");
  const addCondition = button(t("rule.add_condition"), () => {
    conditions.append(makeCondition());
    conditions.lastElementChild.querySelector("input").focus();
  }, { kind: "quiet small" });
  const holders = ["caller", "agent", "session"].map((name) => [name, h("input", { type: "text", maxlength: "500" })]);
  const life = choice(lifeChoices(), "");
  const reason = h("textarea", { rows: "2", maxlength: "10000" });
  const traits = TRAITS.map((name) => [name, choice([["", t("rule.any")], ["true", t("rule.yes")], ["false", t("rule.no")]], "")]);
  const more = h("details", h("summary", t("rule.more")), h("div.field-grid", holders.map(([name, input]) => field(t(`fact.${name}`), input)), traits.map(([name, select]) => field(t(`rule.${name}`), select))));
  const reasonBox = field(t("inbox.reason"), reason, { hint: t("inbox.reason_hint") });
  const read = () => ({
    verdict: verdict.value,
    pattern: pattern.value.trim(),
    where: readConditions(conditions),
    reason: (verdict.value !== "allow" && reason.value.trim()) || null,
    expires_in: life.value ? Number(life.value) : null,
    ...Object.fromEntries(holders.map(([name, input]) => [name, input.value.trim() || null])),
    ...Object.fromEntries(traits.map(([name, select]) => [name, select.value === "" ? null : select.value === "true"])),
  });
  dialog(
    t("rules.add"),
    [field(t("rules.verdict"), verdict), field(t("rule.pattern"), pattern, { hint: t("rule.pattern_hint") }), h("div.field", h("span.faint.small", t("rule.conditions")), conditions, h("div", addCondition)), field(t("rule.life"), life), reasonBox, more],
    [
      {
        text: t("rule.make"),
        kind: "primary",
        run: async () => {
          await post("/rules", read());
          onMade();
        },
      },
    ],
  );
  pattern.focus();
}

function makeCondition() {
  const name = h("input", { type: "text", placeholder: "path", "aria-label": t("rule.argument") });
  const value = h("input", { type: "text", placeholder: "/srv/**", "aria-label": t("rule.argument_pattern") });
  const row = h("div.rule-condition", name, "=", value, button("×", () => row.remove(), { kind: "quiet", "aria-label": t("remove") }));
  return row;
}

function readConditions(box) {
  const pairs = [...box.children].map((row) => [...row.querySelectorAll("input")].map((each) => each.value));
  const named = pairs.filter(([name]) => name.trim() !== "");
  return named.length ? Object.fromEntries(named.map(([name, value]) => [name.trim(), value])) : null;
}
