// Make a standing rule from nothing.

import { post } from "./api.js";
import { h } from "./dom.js";
import { button, choice, dialog, field, textInput } from "./parts.js";
import { HOLDERS, lifeChoices, reasonField } from "./rule_parts.js";
import { t } from "./words.js";

const TRAITS = ["read_only", "destructive", "open_world", "untrusted"];

export function showNewRule(onMade) {
  const verdict = choice(["allow", "ask", "deny"].map((each) => [each, t(`state.${each}`)]), "ask", () => (reason.element.hidden = verdict.value === "allow"));
  const pattern = textInput({ required: true, placeholder: "delete_*" });
  const conditions = h("div.rule-conditions");
  const addCondition = button(t("rule.add_condition"), () => {
    conditions.append(makeCondition());
    conditions.lastElementChild.querySelector("input").focus();
  }, { kind: "quiet small" });
  const holders = HOLDERS.map((name) => [name, textInput()]);
  const life = choice(lifeChoices(), "");
  const reason = reasonField();
  const traits = TRAITS.map((name) => [name, choice([["", t("rule.any")], ["true", t("rule.yes")], ["false", t("rule.no")]], "")]);
  const more = [...holders, ...traits].map(([name, control]) => field(t(`label.${name}`), control));
  const read = () => ({
    verdict: verdict.value,
    pattern: pattern.value.trim(),
    where: readConditions(conditions),
    reason: verdict.value === "allow" ? null : reason.read(),
    expires_in: life.value ? Number(life.value) : null,
    ...Object.fromEntries(holders.map(([name, input]) => [name, input.value.trim() || null])),
    ...Object.fromEntries(traits.map(([name, select]) => [name, select.value === "" ? null : select.value === "true"])),
  });
  const fields = [
    field(t("label.verdict"), verdict),
    field(t("label.tool"), pattern, { hint: t("rule.pattern_hint") }),
    h("div.field", h("span.faint.small", t("rule.conditions")), conditions, h("div", addCondition)),
    field(t("label.life"), life),
    reason.element,
    h("details", h("summary", t("rule.more")), h("div.field-grid", more)),
  ];
  const run = async () => {
    await post("/rules", read());
    onMade();
  };
  dialog(t("rules.add"), fields, { text: t("rule.make"), kind: "primary", run });
  pattern.focus();
}

function makeCondition() {
  const name = textInput({ placeholder: "path", "aria-label": t("label.argument") });
  const value = textInput({ placeholder: "/srv/**", "aria-label": t("label.pattern"), maxlength: null });
  const row = h("div.rule-condition", name, "=", value, button("×", () => row.remove(), { kind: "quiet", "aria-label": t("action.remove") }));
  return row;
}

function readConditions(box) {
  const pairs = [...box.children].map((row) => [...row.querySelectorAll("input")].map((each) => each.value));
  const named = pairs.filter(([name]) => name.trim() !== "");
  return named.length ? Object.fromEntries(named.map(([name, value]) => [name.trim(), value])) : null;
}
