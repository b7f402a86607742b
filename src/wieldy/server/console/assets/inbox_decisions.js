// Decisions that ask for more than a key: a reason, several calls at once, a standing rule.

import { isDigits, post, writeJson } from "./api.js";
import { h, outside, show } from "./dom.js";
import { argumentLine, sayCaller, sayDecision } from "./inbox_calls.js";
import { argumentTable, isOffered } from "./inbox_detail.js";
import { folded } from "./page_parts.js";
import { announce, choice, dialog, field, note } from "./parts.js";
import { HOLDERS, lifeChoices, reasonField } from "./rule_parts.js";
import { t } from "./words.js";

const AT_ONCE = 4;
const DAY = 24 * 3600;
const MOST_ROWS = 50;
// What the server shows in place of a secret.
const COVER = "**********";

const toolName = (item) => outside(item.call.tool, { class: "tool-name", longest: 100 });

export function denyOne(inbox, item) {
  const reason = reasonField();
  const told = h("div", { role: "status" });
  const parts = [h("p", toolName(item), " ", argumentLine(item.call, 160)), told, reason.element];
  const run = () => void (item.state === "pending" && inbox.calls.decide(item, "deny", { reason: reason.read() }));
  const box = dialog(t("inbox.deny_title"), parts, { text: t("inbox.deny"), kind: "danger", run });
  // It stays open if somebody else decides: what is typed would become keys of the page.
  inbox.tellDialog = () => {
    if (item.state === "pending") return;
    show(told, note(sayDecision(item, inbox.me)));
    box.querySelector(".danger").disabled = true;
  };
  reason.focus();
}

/** Approve or deny several calls, after a look at all of them. */
export async function decideSeveral(inbox, items, verb) {
  const denies = verb === "deny";
  const able = denies ? items : (await inbox.readWhole(items)).filter(isOffered);
  if (!items.length || inbox.closed) return;
  const reason = reasonField();
  const whole = ({ call }) => [" ", sayCaller(call), inbox.detail.drawLock(call), argumentTable(call.arguments), folded(t("inbox.why"), () => inbox.detail.drawReason(call))];
  const list = h("ul.bulk-list", able.map((each) => h("li", toolName(each), denies ? [" ", argumentLine(each.call, 200)] : whole(each))));
  const left = items.length - able.length;
  const parts = [list, left ? note(t("inbox.several_left", { count: left })) : null, denies ? reason.element : null];
  const run = () => {
    inbox.selected.clear();
    decideAll(inbox, able, verb, denies ? { reason: reason.read() } : {});
  };
  dialog(t(`inbox.${verb}_several`, { count: able.length }), parts, able.length ? { text: t(`inbox.${verb}`), kind: denies ? "danger" : "primary", run } : null);
}

/** Do something with each of some calls, a few at a time. */
export async function inTurn(items, work) {
  const left = [...items];
  const some = async () => {
    for (let item = left.shift(); item; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
}

async function decideAll(inbox, items, verb, body) {
  let failed = 0;
  await inTurn(items, async (item) => {
    // Somebody else may have decided since it was chosen.
    if (item.state === "pending" && !(await inbox.calls.decide(item, verb, body))) failed += 1;
  });
  announce(t("inbox.several_done", { count: items.length - failed, failed }));
}

export async function allowAlways(inbox, item) {
  const [found] = await inbox.readWhole([item]);
  if (!found || inbox.current !== item.id) return;
  const { call } = item;
  const holders = HOLDERS.filter((name) => call[name]).map((name) => [name, `${t(`label.${name}`)}: ${call[name].slice(0, 80)}`]);
  const who = choice([["", t("rule.anybody")], ...holders], call.caller ? "caller" : "");
  const life = choice(lifeChoices(), String(DAY));
  const conditions = makeConditions(call);
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

// A box for each argument that a rule can be bound to; what can't be bound has to be ticked. An argument that the
// call leaves out is bound to its default: otherwise a later call could give it any value.
function makeConditions({ arguments: given, input_schema: schema }) {
  const absent = Object.entries(schema?.properties || {}).map(([name, each]) => [name, each?.default]);
  const known = Object.entries({ ...Object.fromEntries(absent), ...given });
  const rows = known.slice(0, MOST_ROWS).map(([name, value]) => makeCondition(name, value));
  const free = known.filter((_, place) => !rows[place]).map(([name]) => name);
  const element = h(
    "fieldset.conditions",
    h("legend", t("rule.only_if")),
    known.length ? rows.map((each) => each?.element) : h("p.faint", t("inbox.no_arguments")),
    free.length < known.length ? h("p.faint.small", t("rule.or_pattern")) : null,
    free.length ? h("label.check", h("input", { type: "checkbox", required: true }), h("span", t("rule.not_bound"), " ", outside(free.join(", "), { class: "mono", longest: 2000 }))) : null,
  );
  const read = (kind) => {
    const bound = rows.map((each) => each?.read()).filter((each) => each && each.kind === kind);
    return bound.length ? Object.fromEntries(bound.map(({ value }) => [value.name, value.value])) : null;
  };
  return { element, read: () => ({ equals: read("equals"), where: read("where") }) };
}

// The value itself, unless somebody writes a pattern in its place; nothing if a rule can't be bound to it.
function makeCondition(name, value) {
  const isText = typeof value === "string";
  const isPlain = isText ? !value.includes(COVER) : value === null || isDigits(value) || ["boolean", "number"].includes(typeof value);
  if (!isPlain || name.includes(".")) return null;
  const label = outside(name, { class: "mono", longest: 100 });
  const on = h("input", { type: "checkbox", checked: true });
  // A text area keeps the line breaks of a text.
  const text = h("textarea", { rows: "1", value: isText ? value : writeJson(value), readonly: !isText, class: "mono", "aria-label": t("rule.pattern_of", { name: name.slice(0, 100) }) });
  const first = text.value;
  on.addEventListener("change", () => (text.disabled = !on.checked));
  const read = () => {
    if (!on.checked) return null;
    if (text.value === first) return { kind: "equals", value: { name, value } };
    return { kind: "where", value: { name, value: text.value } };
  };
  return { element: h("div.condition", h("label.check", on, label), text), read };
}
