// How rules are told, wherever they are shown.

import { h, outside } from "./dom.js";
import { badge } from "./parts.js";
import { t } from "./words.js";

const HOUR = 3600;

/** The lives that a new rule may have, in seconds. */
export const LIVES = [HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR];

/** A length of time in words. */
export function sayLife(seconds) {
  const days = seconds / (24 * HOUR);
  return days < 1 ? t("rule.hours", { count: seconds / HOUR }) : t("rule.days", { count: days });
}

/** The choices of a new rule's life, as pairs for a choice. */
export const lifeChoices = () => [...LIVES.map((seconds) => [String(seconds), sayLife(seconds)]), ["", t("rule.for_ever")]];

/** For whom a rule or mode holds. */
export function sayHolder(rule) {
  const parts = ["caller", "agent", "session"].filter((name) => rule[name]).map((name) => h("div", h("span.faint", `${t(`fact.${name}`)}: `), outside(rule[name], { longest: 100 })));
  return parts.length ? parts : t("rule.anybody");
}

/** The arguments and facts that a rule wants, one to a line. */
export function sayConditions(facts) {
  const names = Object.keys(facts).filter((name) => facts[name] !== null && facts[name] !== undefined);
  if (!names.length) return null;
  const line = (name) => h("div", outside(name, { class: "mono faint" }), " = ", outside(typeof facts[name] === "string" ? facts[name] : JSON.stringify(facts[name]), { class: "mono" }));
  return h("div.small", names.slice(0, 50).map(line));
}

/** Rules that match a call, one to a line. */
export function matchedRules(rules) {
  const line = (each) => h("li", badge(each.verdict), " ", outside(each.pattern, { class: "mono" }), sayConditions(each.where || {}), each.reason ? h("div.faint.small", outside(each.reason, { longest: 500 })) : null);
  return h("ul.matched", rules.slice(0, 100).map(line));
}
