// A form made of a JSON Schema. What it can't show as fields is edited as JSON.

import { isDigits, readJson, writeJson } from "./api.js";
import { clear, escapeHidden, h, hasHidden, outside, escapeText, show } from "./dom.js";
import { amount, button, newId } from "./parts.js";
import { t } from "./words.js";

const DEEPEST = 5;
const MOST_ITEMS = 50;
const MOST_CHOICES = 200;
const LONGEST_TEXT = 50_000;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** What a person typed that is no value; `path` says where. */
export class FormProblem extends Error {
  constructor(path, message) {
    super(message);
    this.path = path;
  }
}

/**
 * A form for a value. `read` gives the value, or throws a FormProblem; a part that nobody touched is
 * given back exactly as it was. `setProblems` shows messages beside the fields of their paths. What nobody
 * has filled in yet is no mistake until `reveal` says that the form was sent.
 */
export function schemaForm(schema, value, { onChange = () => {} } = {}) {
  const fieldsBox = h("div.form-fields");
  const general = h("ul.form-problems", { "aria-live": "polite" });
  const state = { fields: [], root: schema || {}, onChange: () => { used = true; own(); onChange(); } };
  const first = value === undefined ? {} : value;
  let node, asJson, used = false, sent = false, reported = [];

  const own = () => show(general);
  const build = (current, json) => {
    state.fields = [];
    node = json ? jsonField(current, [], state) : makeNode(state.root, current, [], state);
    asJson = json || node.plain === true;
    show(fieldsBox, node.element);
    show(toggle, t(asJson ? "form.as_form" : "form.as_json"));
    toggle.hidden = !json && node.plain === true;
  };
  const toggle = button("", () => {
    try {
      build(node.touched() ? node.read() : first, !asJson);
    } catch (problem) {
      setProblems([problem]);
    }
    setProblems(reported);
  }, { kind: "link" });
  const setProblems = (problems) => {
    reported = problems;
    state.fields.forEach((each) => each.setProblems([]));
    const rest = problems.filter((problem) => !placeProblem(state.fields, problem, sent));
    if (used || sent) show(general, rest.map((each) => h("li", outside(sayProblem(each), { longest: 1000 }))));
  };
  build(first, false);
  return {
    element: h("div.schema-form", fieldsBox, general, toggle),
    read: () => (node.touched() ? node.read() : first),
    touched: () => node.touched(),
    setProblems,
    reveal: () => { sent = true; setProblems(reported); },
    focus: () => fieldsBox.querySelector("input, textarea, select, button")?.focus(),
  };
}

function sayProblem({ path, message }) {
  const place = splitPath(path).join(".");
  return place ? `${place}: ${message}` : message;
}

function splitPath(path) {
  if (Array.isArray(path)) return path.map(String);
  return String(path ?? "").replace(/^\$/, "").split(/[.[\]/]+/).filter(Boolean);
}

function placeProblem(fields, problem, sent) {
  const tokens = splitPath(problem.path);
  let best = null;
  for (const each of fields) {
    const fits = each.path.length && each.path.every((name, index) => String(name) === tokens[index]);
    if (fits && (!best || each.path.length > best.path.length)) best = each;
  }
  if (best && (sent || best.filled())) best.setProblems([...best.problems, problem.message]);
  return best !== null;
}

// A schema with its references followed, and without the null of an optional value.
function plainSchema(schema, root) {
  let found = schema;
  for (let hops = 0; hops < 20; hops += 1) {
    if (found === null || typeof found !== "object") return {};
    if (typeof found.$ref === "string") {
      found = { ...followReference(found.$ref, root), ...withoutKey(found, "$ref") };
      continue;
    }
    const several = found.anyOf || found.oneOf;
    const choices = Array.isArray(several) ? several.filter((each) => each && each.type !== "null") : [];
    if (choices.length === 1) found = { ...withoutKey(withoutKey(found, "anyOf"), "oneOf"), ...choices[0] };
    else if (Array.isArray(found.allOf) && found.allOf.length === 1) found = { ...found.allOf[0], ...withoutKey(found, "allOf") };
    else if (Array.isArray(found.type)) found = { ...found, type: onlyType(found.type) };
    else return found;
  }
  return {};
}

function onlyType(types) {
  const rest = types.filter((each) => each !== "null");
  return rest.length === 1 ? rest[0] : "several";
}

function withoutKey(object, key) {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));
}

function followReference(reference, root) {
  if (!reference.startsWith("#/")) return {};
  const parts = reference.slice(2).split("/").map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
  const found = parts.reduce((at, name) => (at && typeof at === "object" && Object.hasOwn(at, name) ? at[name] : {}), root);
  return found && typeof found === "object" ? found : {};
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !isDigits(value);
const hasFields = (schema) => isObject(schema.properties) && Object.keys(schema.properties).length <= MOST_CHOICES;

function makeNode(given, value, path, state) {
  const schema = plainSchema(given, state.root);
  const missing = value === undefined;
  const start = missing && schema.default !== null ? schema.default : value;
  if (Array.isArray(schema.enum) && fitsEnum(schema, start)) return enumField(schema, start, path, state);
  const kind = KINDS[schema.type];
  if (path.length <= DEEPEST && kind && kind.fits(schema, start)) return kind.make(schema, start, path, state);
  if (path.length === 0 && isObject(start) && !schema.type) return objectField({ ...schema, properties: schema.properties || {} }, start, path, state);
  return jsonField(start, path, state);
}

const KINDS = {
  string: { fits: (schema, value) => value === undefined || typeof value === "string", make: textField },
  integer: { fits: fitsNumber, make: numberField },
  number: { fits: fitsNumber, make: numberField },
  boolean: { fits: (schema, value) => value === undefined || typeof value === "boolean", make: booleanField },
  array: { fits: (schema, value) => isObject(schema.items) && (value === undefined || (Array.isArray(value) && value.length <= MOST_ITEMS)), make: arrayField },
  object: { fits: (schema, value) => hasFields(schema) && (value === undefined || isObject(value)), make: objectField },
};

function fitsNumber(schema, value) {
  return value === undefined || typeof value === "number" || isDigits(value);
}

function fitsEnum(schema, value) {
  const scalars = schema.enum.length <= MOST_CHOICES && schema.enum.every((each) => each === null || typeof each !== "object");
  return scalars && (value === undefined || schema.enum.includes(value));
}

// A field with one control. `parse` makes the value of the control's text.
function controlField(control, value, path, state, read, extra = []) {
  let touched = false;
  const problems = h("p.field-problem", { id: newId("problem") });
  const touch = () => { touched = true; state.onChange(); };
  control.addEventListener("input", touch);
  control.id ||= newId("field");
  const made = {
    path,
    control,
    problems: [],
    element: h("div.control", control, extra, problems),
    touched: () => touched,
    filled: () => touched || value !== undefined,
    touch,
    read: () => (touched || value === undefined ? read() : value),
    setProblems(messages) {
      made.problems = messages;
      show(problems, messages.map((each) => outside(each, { longest: 500 })));
      control.toggleAttribute("aria-invalid", messages.length > 0);
      if (messages.length) {
        control.setAttribute("aria-invalid", "true");
        control.setAttribute("aria-describedby", problems.id);
      } else {
        control.removeAttribute("aria-describedby");
      }
    },
  };
  state.fields.push(made);
  return made;
}

function textField(schema, value, path, state) {
  if (value !== undefined && value.length > LONGEST_TEXT) return longTextField(value, path, state);
  if (value !== undefined && hasHidden(value)) return jsonField(value, path, state);
  const rows = Math.min(12, Math.max(1, (value || "").split("\n").length));
  const control = h("textarea", { rows, spellcheck: "false", dir: "auto" });
  control.value = value ?? "";
  const made = controlField(control, value, path, state, () => (value === undefined && !made.touched() ? undefined : control.value));
  return made;
}

// A text that is too long for a text area stays as it is, unless it is replaced as a whole.
function longTextField(value, path, state) {
  const control = h("textarea", { rows: "2", hidden: true, spellcheck: "false" });
  const beginning = h("div.faint", outside(value, { longest: 300 }));
  const replace = button(t("form.replace", { count: amount(value.length) }), () => {
    control.hidden = false;
    beginning.remove();
    replace.remove();
    made.touch();
    control.focus();
  }, { kind: "link" });
  const made = controlField(control, value, path, state, () => control.value, [beginning, replace]);
  return made;
}

function numberField(schema, value, path, state) {
  const control = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", class: "number" });
  control.value = value === undefined ? "" : isDigits(value) ? value.rawJSON : writeJson(value);
  return controlField(control, value, path, state, () => {
    const text = control.value.trim();
    if (text === "") return undefined;
    if (!NUMBER.test(text)) throw new FormProblem(path, t("form.number"));
    return readJson(text);
  });
}

function booleanField(schema, value, path, state) {
  const control = h("input", { type: "checkbox", checked: value === true });
  return controlField(control, value, path, state, () => control.checked);
}

function enumField(schema, value, path, state) {
  const options = schema.enum.map((each, index) => h("option", { value: String(index), selected: each === value }, escapeText(typeof each === "string" ? each : writeJson(each)).slice(0, 200)));
  const control = h("select", options);
  return controlField(control, value, path, state, () => schema.enum[Number(control.value)]);
}

function jsonField(value, path, state) {
  const text = value === undefined ? "" : escapeHidden(writeJson(value, 2));
  const control = h("textarea", { rows: Math.min(14, Math.max(2, text.split("\n").length)), class: "mono", spellcheck: "false", dir: "ltr" });
  control.value = text.length > LONGEST_TEXT * 10 ? "" : text;
  if (path.length === 0) control.setAttribute("aria-label", t("form.json_hint"));
  const made = controlField(control, value, path, state, () => {
    if (control.value.trim() === "") return undefined;
    try {
      return readJson(control.value);
    } catch (error) {
      throw new FormProblem(path, t("form.not_json", { why: error.message }));
    }
  });
  made.plain = true;
  return made;
}

// The name of a field with what the schema says about it.
function labelled(name, node, schema, required, removeIt) {
  const plain = plainSchema(schema, {});
  const id = newId("label");
  const label = h(node.control ? "label" : "span", { class: "field-name", id, for: node.control ? node.control.id : null }, outside(name), required ? null : h("span.faint", ` ${t("form.optional")}`));
  if (node.group) node.element.setAttribute("aria-labelledby", id);
  const hint = typeof plain.description === "string" && plain.description ? h("p.faint.hint", outside(plain.description, { longest: 500 })) : null;
  return h("div", { class: ["form-field", node.control?.type === "checkbox" && "form-check"] }, h("div.form-head", label, removeIt), hint, node.element);
}

function objectField(schema, value, path, state) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const start = value || {};
  const nodes = new Map();
  const rows = h("div.form-rows");
  const adders = h("div.form-adders");
  // A field that has to be there is given with what it shows.
  let changed = [...required].some((name) => Object.hasOwn(schema.properties, name) && !Object.hasOwn(start, name));

  const put = (name, given) => {
    const inner = Object.hasOwn(schema.properties, name) ? schema.properties[name] : {};
    const node = makeNode(inner, given, [...path, name], state);
    nodes.set(name, node);
    const drop = () => {
      changed = true;
      nodes.delete(name);
      state.fields = state.fields.filter((each) => each.path[path.length] !== name || each.path.length <= path.length);
      row.remove();
      if (Object.hasOwn(schema.properties, name)) offer(name);
      state.onChange();
    };
    const remove = required.has(name) ? null : button("×", drop, { kind: "quiet", "aria-label": t("form.leave_out", { name: escapeText(name).slice(0, 100) }), title: t("form.leave_out", { name: escapeText(name).slice(0, 100) }) });
    const row = labelled(name, node, inner, required.has(name), remove);
    rows.append(row);
    return node;
  };
  const offer = (name) => {
    const add = button(t("form.add", { name: escapeText(name).slice(0, 100) }), () => {
      changed = true;
      add.remove();
      const node = put(name, undefined);
      (node.control || node.element.querySelector("input, textarea, select, button"))?.focus();
      state.onChange();
    }, { kind: "quiet small" });
    adders.append(add);
  };
  const known = Object.keys(schema.properties);
  for (const name of known) {
    if (Object.hasOwn(start, name)) put(name, start[name]);
    else if (required.has(name)) put(name, undefined);
    else offer(name);
  }
  for (const name of Object.keys(start)) if (!known.includes(name)) put(name, start[name]);
  if (!known.length && !nodes.size) rows.append(h("p.faint", t("form.nothing")));
  return {
    group: true,
    element: h("div", { class: path.length ? "form-group" : "form-root", role: "group" }, rows, adders),
    touched: () => changed || value === undefined || [...nodes.values()].some((each) => each.touched()),
    read: () => Object.fromEntries([...nodes].map(([name, node]) => [name, node.read()]).filter(([, each]) => each !== undefined)),
  };
}

function arrayField(schema, value, path, state) {
  const list = h("ol.form-items");
  let nodes = [];
  let changed = false;

  // Items move up when one before them goes, so their paths are made anew.
  const rebuild = (values) => {
    state.fields = state.fields.filter((each) => !path.every((name, index) => each.path[index] === name) || each.path.length <= path.length);
    clear(list);
    nodes = values.map((each, index) => {
      const node = makeNode(schema.items, each, [...path, index], state);
      const label = t("form.item", { number: index + 1 });
      (node.control || node.element).setAttribute("aria-label", label);
      const remove = button("×", () => { alter((now) => now.filter((_, at) => at !== index)); }, { kind: "quiet", "aria-label": t("form.remove_item", { number: index + 1 }) });
      list.append(h("li", node.element, remove));
      return node;
    });
  };
  const alter = (change) => {
    let now;
    try {
      now = nodes.map((each) => each.read());
    } catch {
      return;
    }
    changed = true;
    rebuild(change(now));
    state.onChange();
  };
  const add = button(t("form.add_item"), () => {
    alter((now) => [...now, undefined]);
    nodes.at(-1)?.control?.focus();
  }, { kind: "quiet small" });
  rebuild(value || []);
  return {
    group: true,
    element: h("div.form-group", { role: "group" }, list, add),
    touched: () => changed || value === undefined || nodes.some((each) => each.touched()),
    read: () => nodes.map((each) => each.read() ?? null),
  };
}
