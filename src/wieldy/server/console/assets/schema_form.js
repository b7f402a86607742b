// A form made of a JSON Schema. What it can't show as fields is edited as JSON.

import { isDigits, readJson, writeJson } from "./api.js";
import { escapeHidden, h, hasHidden, longText, outside, shortText, show } from "./dom.js";
import { amount, button, newId } from "./parts.js";
import { t } from "./words.js";

const DEEPEST = 5;
const MOST_ITEMS = 50;
const MOST_CHOICES = 200;
const LONGEST_TEXT = 50_000;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const CONTROLS = "input, textarea, select, button";

// What a person typed that is no value; `path` says where.
class FormProblem extends Error {
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
export function schemaForm(schema, first = {}, { onChange = () => {} } = {}) {
  const fieldsBox = h("div.form-fields");
  const general = h("ul.form-problems", { "aria-live": "polite" });
  const form = { fields: [], root: schema || {}, onChange: () => { used = true; show(general); onChange(); } };
  let node, asJson, used = false, sent = false, reported = [];

  const build = (value, json) => {
    form.fields = [];
    const at = { schema: form.root, value, path: [], form };
    node = json ? jsonField(at) : makeNode(at);
    asJson = json || node.plain === true;
    show(fieldsBox, node.element);
    show(toggle, t(asJson ? "form.as_form" : "form.as_json"));
    toggle.hidden = !json && node.plain === true;
  };
  const read = () => (node.touched() ? node.read() : first);
  const toggle = button("", () => {
    try {
      build(read(), !asJson);
    } catch (problem) {
      setProblems([problem]);
    }
    setProblems(reported);
  }, { kind: "link" });
  const setProblems = (problems) => {
    reported = problems;
    form.fields.forEach((each) => each.setProblems([]));
    const rest = problems.filter((problem) => !placeProblem(form.fields, problem, sent));
    if (used || sent) show(general, rest.map((each) => h("li", longText(sayProblem(each)))));
  };
  build(first, false);
  return {
    element: h("div.schema-form", fieldsBox, general, toggle),
    read,
    setProblems,
    reveal: () => { sent = true; setProblems(reported); },
    focus: () => fieldsBox.querySelector(CONTROLS)?.focus(),
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

// Show a problem at the field nearest to its path, and say whether there is one.
function placeProblem(fields, problem, sent) {
  const names = splitPath(problem.path);
  const fitting = fields.filter(({ path }) => path.length && path.every((name, index) => String(name) === names[index]));
  const best = fitting.sort((one, other) => other.path.length - one.path.length)[0];
  if (best && (sent || best.filled())) best.setProblems([...best.problems, problem.message]);
  return Boolean(best);
}

// A schema with its references followed, and without the null of an optional value.
function plainSchema(schema, root) {
  let found = schema;
  for (let hops = 0; hops < 20; hops += 1) {
    if (found === null || typeof found !== "object") return {};
    const { $ref, anyOf, oneOf, allOf, ...rest } = found;
    const several = anyOf || oneOf;
    const choices = Array.isArray(several) ? several.filter((each) => each && each.type !== "null") : [];
    if (typeof $ref === "string") found = { ...followReference($ref, root), ...withoutKey(found, "$ref") };
    else if (choices.length === 1) found = { ...withoutKey(withoutKey(found, "anyOf"), "oneOf"), ...choices[0] };
    else if (Array.isArray(allOf) && allOf.length === 1) found = { ...allOf[0], ...withoutKey(found, "allOf") };
    else if (Array.isArray(rest.type)) found = { ...found, type: onlyType(rest.type) };
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
  const parts = unescaped(reference.slice(2)).split("/").map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
  const found = parts.reduce((at, name) => (at && typeof at === "object" && Object.hasOwn(at, name) ? at[name] : {}), root);
  return found && typeof found === "object" ? found : {};
}

// A reference is part of a URL, so its names may have percent signs.
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !isDigits(value);

// Each field is made of {schema, value, path, form}; a value that is not there is undefined.
function makeNode(given) {
  const schema = plainSchema(given.schema, given.form.root);
  const value = given.value === undefined && schema.default !== null ? schema.default : given.value;
  const at = { ...given, schema, value };
  if (Array.isArray(schema.enum) && fitsEnum(schema.enum, value)) return enumField(at);
  const [fits, make] = KINDS[schema.type] || [];
  if (at.path.length <= DEEPEST && make && fits(value, schema)) return make(at);
  if (at.path.length === 0 && isObject(value) && !schema.type) return objectField({ ...at, schema: { properties: {}, ...schema } });
  return jsonField(at);
}

const orNothing = (fits) => (value, schema) => value === undefined || fits(value, schema);
const isNumber = orNothing((value) => typeof value === "number" || isDigits(value));
const isShortList = orNothing((value) => Array.isArray(value) && value.length <= MOST_ITEMS);
const KINDS = {
  string: [orNothing((value) => typeof value === "string"), textField],
  integer: [isNumber, numberField],
  number: [isNumber, numberField],
  boolean: [orNothing((value) => typeof value === "boolean"), booleanField],
  array: [(value, schema) => isObject(schema.items) && isShortList(value), arrayField],
  object: [(value, schema) => hasFields(schema) && (value === undefined || isObject(value)), objectField],
};

function hasFields({ properties }) {
  return isObject(properties) && Object.keys(properties).length <= MOST_CHOICES;
}

function fitsEnum(choices, value) {
  const scalars = choices.length <= MOST_CHOICES && choices.every((each) => each === null || typeof each !== "object");
  return scalars && (value === undefined || choices.includes(value));
}

// A field with one control. `read` makes a value of what is in it.
function controlField({ value, path, form }, control, read, extra = []) {
  let touched = false;
  const problems = h("p.field-problem", { id: newId("problem") });
  const touch = () => { touched = true; form.onChange(); };
  control.addEventListener("input", touch);
  control.id = newId("field");
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
      show(problems, messages.map((each) => longText(each)));
      for (const [name, text] of [["aria-invalid", "true"], ["aria-describedby", problems.id]]) {
        if (messages.length) control.setAttribute(name, text);
        else control.removeAttribute(name);
      }
    },
  };
  form.fields.push(made);
  return made;
}

const rowsFor = (text, least, most) => Math.min(most, Math.max(least, text.split("\n").length));

function textField(at) {
  const { value } = at;
  if (value !== undefined && value.length > LONGEST_TEXT) return longTextField(at);
  if (value !== undefined && hasHidden(value)) return jsonField(at);
  const control = h("textarea", { rows: rowsFor(value || "", 1, 12), spellcheck: "false", dir: "auto", value: value ?? "" });
  const made = controlField(at, control, () => (value === undefined && !made.touched() ? undefined : control.value));
  return made;
}

// A text that is too long for a text area stays as it is, unless it is replaced as a whole.
function longTextField(at) {
  const control = h("textarea", { rows: "2", hidden: true, spellcheck: "false" });
  const beginning = h("div.faint", outside(at.value));
  const replace = button(t("form.replace", { count: amount(at.value.length) }), () => {
    control.hidden = false;
    beginning.remove();
    replace.remove();
    made.touch();
    control.focus();
  }, { kind: "link" });
  const made = controlField(at, control, () => control.value, [beginning, replace]);
  return made;
}

function numberField(at) {
  const { value, path } = at;
  const text = value === undefined ? "" : isDigits(value) ? value.rawJSON : writeJson(value);
  const control = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", value: text });
  return controlField(at, control, () => {
    const typed = control.value.trim();
    if (typed === "") return undefined;
    if (!NUMBER.test(typed)) throw new FormProblem(path, t("form.number"));
    return readJson(typed);
  });
}

function booleanField(at) {
  const control = h("input", { type: "checkbox", checked: at.value === true });
  return controlField(at, control, () => control.checked);
}

function enumField(at) {
  const { enum: choices } = at.schema;
  const say = (each) => shortText(typeof each === "string" ? each : writeJson(each), 200);
  const control = h("select", choices.map((each, index) => h("option", { value: String(index), selected: each === at.value }, say(each))));
  return controlField(at, control, () => choices[Number(control.value)]);
}

function jsonField(at) {
  const { value, path } = at;
  const text = value === undefined ? "" : escapeHidden(writeJson(value, 2));
  const label = path.length === 0 ? "JSON" : null;
  const control = h("textarea.mono", { rows: rowsFor(text, 2, 14), spellcheck: "false", dir: "ltr", "aria-label": label });
  control.value = text.length > LONGEST_TEXT * 10 ? "" : text;
  const made = controlField(at, control, () => {
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

function labelled(name, node, schema, required, remove) {
  const { description } = plainSchema(schema, {});
  const id = newId("label");
  const label = h(node.control ? "label" : "span", { class: "field-name", id, for: node.control?.id }, outside(name), required ? null : h("span.faint", ` ${t("form.optional")}`));
  if (node.group) node.element.setAttribute("aria-labelledby", id);
  const hint = typeof description === "string" && description ? h("p.faint.hint", longText(description)) : null;
  return h("div", { class: ["form-field", node.control?.type === "checkbox" && "form-check"] }, h("div.form-head", label, remove), hint, node.element);
}

// Forget the fields below a path, whose elements are gone.
function forgetFields(form, path) {
  form.fields = form.fields.filter((each) => each.path.length < path.length || path.some((name, index) => each.path[index] !== name));
}

function objectField({ schema, value, path, form }) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const start = value || {};
  const nodes = new Map();
  const rows = h("div.form-rows");
  const adders = h("div.form-adders");
  const isKnown = (name) => Object.hasOwn(schema.properties, name);
  // A field that has to be there is given with what it shows.
  let changed = [...required].some((name) => isKnown(name) && !Object.hasOwn(start, name));

  const put = (name, given) => {
    const inner = isKnown(name) ? schema.properties[name] : {};
    const place = [...path, name];
    const node = makeNode({ schema: inner, value: given, path: place, form });
    nodes.set(name, node);
    const drop = () => {
      changed = true;
      nodes.delete(name);
      forgetFields(form, place);
      row.remove();
      if (isKnown(name)) offer(name);
      form.onChange();
    };
    const title = t("form.leave_out", { name: shortText(name) });
    const remove = required.has(name) ? null : button("×", drop, { kind: "quiet", "aria-label": title, title });
    const row = labelled(name, node, inner, required.has(name), remove);
    rows.append(row);
    return node;
  };
  const offer = (name) => {
    const add = button(t("form.add", { name: shortText(name) }), () => {
      changed = true;
      add.remove();
      const node = put(name, undefined);
      (node.control || node.element.querySelector(CONTROLS))?.focus();
      form.onChange();
    }, { kind: "quiet small" });
    adders.append(add);
  };
  const known = Object.keys(schema.properties);
  for (const name of known) {
    if (Object.hasOwn(start, name) || required.has(name)) put(name, Object.hasOwn(start, name) ? start[name] : undefined);
    else offer(name);
  }
  for (const name of Object.keys(start)) if (!known.includes(name)) put(name, start[name]);
  if (!known.length && !nodes.size) rows.append(h("p.faint", t("form.nothing")));
  return {
    group: true,
    element: h("div", { class: path.length ? "form-group" : null, role: "group" }, rows, adders),
    touched: () => changed || value === undefined || [...nodes.values()].some((each) => each.touched()),
    read: () => Object.fromEntries([...nodes].map(([name, node]) => [name, node.read()]).filter(([, each]) => each !== undefined)),
  };
}

function arrayField({ schema, value, path, form }) {
  const list = h("ol.form-items");
  let nodes = [];
  let changed = false;

  // Items move up when one before them goes, so their paths are made anew.
  const rebuild = (values) => {
    forgetFields(form, path);
    show(list);
    nodes = values.map((each, index) => {
      const node = makeNode({ schema: schema.items, value: each, path: [...path, index], form });
      const number = index + 1;
      (node.control || node.element).setAttribute("aria-label", t("form.item", { number }));
      const drop = () => alter((now) => now.filter((_, at) => at !== index));
      list.append(h("li", node.element, button("×", drop, { kind: "quiet", "aria-label": t("form.remove_item", { number }) })));
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
    form.onChange();
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
