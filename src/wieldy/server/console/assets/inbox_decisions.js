// Decisions that ask for more than a key: a reason, several calls at once, a standing rule.

import { post } from "./api.js";
import { h, outside } from "./dom.js";
import { jsonLine } from "./json_view.js";
import { announce, choice, dialog, field, note } from "./parts.js";
import { HOLDERS, lifeChoices, reasonField } from "./rule_parts.js";
import { t } from "./words.js";

const AT_ONCE = 4;
const DAY = 24 * 3600;
// What the server shows in place of a secret.
const COVER = "**********";

const toolName = (item) => outside(item.call.tool, { class: "tool-name", longest: 100 });

export function denyOne(inbox, item) {
  const reason = reasonField();
  const parts = [h("p", toolName(item), " ", jsonLine(item.call.arguments, 160)), reason.element];
  const run = () => void inbox.calls.decide(item, "deny", { reason: reason.read() });
  dialog(t("inbox.deny_title"), parts, { text: t("inbox.deny"), kind: "danger", run });
  reason.focus();
}

/** Approve or deny several calls, after a look at all of them. */
export function decideSeveral(inbox, items, verb) {
  if (!items.length) return;
  const denies = verb === "deny";
  const able = items.filter((each) => denies || !each.call.requests);
  const reason = reasonField();
  const list = h("ul.bulk-list", able.map((each) => h("li", toolName(each), " ", jsonLine(each.call.arguments, 200))));
  const left = items.length - able.length;
  const parts = [list, left ? note(t("inbox.several_left", { count: left })) : null, denies ? reason.element : null];
  const run = () => {
    inbox.selected.clear();
    decideAll(inbox, able, verb, denies ? { reason: reason.read() } : {});
  };
  dialog(t(`inbox.${verb}_several`, { count: able.length }), parts, { text: t(`inbox.${verb}`), kind: denies ? "danger" : "primary", run });
}

async function decideAll(inbox, items, verb, body) {
  const left = [...items];
  let failed = 0;
  const work = async () => {
    for (let item = left.shift(); item; item = left.shift()) {
      // Somebody else may have decided since it was chosen.
      if (item.state === "pending" && !(await inbox.calls.decide(item, verb, body))) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  announce(t("inbox.several_done", { count: items.length - failed, failed }));
}

export function allowAlways(inbox, item) {
  const { call } = item;
  const holders = HOLDERS.filter((name) => call[name]).map((name) => [name, `${t(`label.${name}`)}: ${call[name].slice(0, 80)}`]);
  const who = choice([["", t("rule.anybody")], ...holders], call.caller ? "caller" : "");
  const life = choice(lifeChoices(), String(DAY));
  const conditions = makeConditions(call.arguments);
  const approve = h("input", { type: "checkbox", checked: true });
  const parts = [
    h("p", t("rule.allow_tool"), " ", toolName(item)),
    field(t("label.holder"), who),
    conditions.element,
    field(t("label.life"), life),
    h("label.check", approve, t("rule.approve_too")),
  ];
  const run = async () => {
    const rule = { verdict: "allow", tool: call.tool, ...conditions.read() };
    if (who.value) rule[who.value] = call[who.value];
    if (life.value) rule.expires_in = Number(life.value);
    await post("/rules", rule);
    announce(t("rule.made"));
    if (approve.checked && item.state === "pending") inbox.calls.decide(item, "approve", {});
  };
  dialog(t("inbox.always_title"), parts, { text: t("rule.make"), kind: "primary", run });
}

// A box for each argument that a rule can be bound to; all are bound at first.
function makeConditions(values) {
  const known = values && typeof values === "object" && !Array.isArray(values) ? Object.entries(values) : [];
  const rows = known.slice(0, 50).map(([name, value]) => makeCondition(name, value));
  const free = rows.filter((each) => !each.read);
  const element = h(
    "fieldset.conditions",
    h("legend", t("rule.only_if")),
    rows.length ? rows.map((each) => each.element) : h("p.faint", t("inbox.no_arguments")),
    rows.length > free.length ? h("p.faint.small", t("rule.or_pattern")) : null,
    free.length || known.length > 50 ? note(t("rule.not_bound")) : null,
  );
  const read = (kind) => {
    const bound = rows.map((each) => each.read?.()).filter((each) => each && each.kind === kind);
    return bound.length ? Object.fromEntries(bound.map(({ value }) => [value.name, value.value])) : null;
  };
  return { element, read: () => ({ equals: read("equals"), where: read("where") }) };
}

// The value itself, unless somebody writes a pattern in its place.
function makeCondition(name, value) {
  const label = outside(name, { class: "mono", longest: 100 });
  const isText = typeof value === "string";
  const bound = (isText && value.length <= 2000 && !value.includes(COVER)) || typeof value === "boolean" || typeof value === "number";
  if (!bound || name.includes(".")) return { element: h("p.faint", label, " ", t("rule.any_value")) };
  const on = h("input", { type: "checkbox", checked: true });
  // A text area keeps the line breaks of a text.
  const text = h("textarea", { rows: "1", value: String(value), readonly: !isText, class: "mono", "aria-label": t("rule.pattern_of", { name: name.slice(0, 100) }) });
  const first = text.value;
  on.addEventListener("change", () => (text.disabled = !on.checked));
  const read = () => {
    if (!on.checked) return null;
    if (text.value === first) return { kind: "equals", value: { name, value } };
    return { kind: "where", value: { name, value: text.value } };
  };
  return { element: h("div.condition", h("label.check", on, label), text), read };
}
