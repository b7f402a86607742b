// How rules are told and asked for, wherever that is.

import { h, longText, outside } from "./dom.js";
import { badge, field, sayLength } from "./parts.js";
import { t } from "./words.js";

const HOUR = 3600;
const LIVES = [HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR];

export const HOLDERS = ["caller", "agent", "session"];

export const lifeChoices = () => [...LIVES.map((seconds) => [String(seconds), sayLength(seconds)]), ["", t("rule.for_ever")]];

export function reasonField() {
  const input = h("textarea", { rows: "3", maxlength: "10000" });
  const element = field(t("label.reason"), input, { hint: t("inbox.reason_hint") });
  return { element, read: () => input.value.trim() || null, focus: () => input.focus() };
}

export function sayHolder(rule) {
  const parts = HOLDERS.filter((name) => rule[name]).map((name) => h("div", h("span.faint", `${t(`label.${name}`)}: `), outside(rule[name], { longest: 100 })));
  return parts.length ? parts : t("rule.anybody");
}

export function sayConditions(facts) {
  const wanted = Object.entries(facts).filter(([, value]) => (value ?? null) !== null);
  if (!wanted.length) return null;
  const line = ([name, value]) => h("div", outside(name, { class: "mono faint" }), " = ", outside(typeof value === "string" ? value : JSON.stringify(value), { class: "mono" }));
  return h("div.small", wanted.slice(0, 50).map(line));
}

export function matchedRules(rules) {
  const line = (each) => h("li", badge(each.verdict), " ", outside(each.pattern, { class: "mono" }), sayConditions(each.where || {}), each.reason ? h("div.faint.small", longText(each.reason)) : null);
  return h("ul.matched", rules.slice(0, 100).map(line));
}
