// What several pages are made of: lists with filters in the address, tables, facts and long texts.
import { part } from "./api.js";
import { h, outside, escapeText, show } from "./dom.js";
import { setKeys } from "./keyboard.js";
import { onEvent } from "./live.js";
import { choice, emptyState, pager, problemBox } from "./parts.js";
import { t } from "./words.js";

/** A path of the console with a query; empty values are left out. */
export function pathWith(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return text ? `${path}?${text}` : path;
}

/** A link to a thing of the console that has this id, such as linkTo("calls", id). */
export function linkTo(kind, id, label = id, query = {}) {
  return h("a", { href: pathWith(`/${kind}/${part(id)}`, query) }, outside(label));
}

/** A table whose rows become cards on a narrow screen. `rows` are lists of cells. */
export function dataTable(caption, heads, rows) {
  const labels = heads.map((head) => t(head));
  const body = h("tbody", {}, rows.map((cells) => tableRow(labels, cells)));
  return h(
    "table",
    { class: "cards" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, labels.map((label) => h("th", { scope: "col" }, label)))),
    body,
  );
}

/** One row of a table; the first cell names it. */
export function tableRow(labels, cells) {
  return h(
    "tr",
    {},
    cells.map((cell, place) =>
      place ? h("td", { "data-label": labels[place] }, cell) : h("th", { scope: "row", "data-label": labels[0] }, cell),
    ),
  );
}

/** A section with a heading; `level` says how deep it is. */
export function section(title, ...content) {
  return h("section", { class: "part" }, h("h2", {}, title), ...content);
}

/** Something that is made only when it is opened. `make` may be slow, and may fail. */
export function folded(summary, make, attributes = {}) {
  const body = h("div", { class: "folded" });
  let made = false;
  const open = async () => {
    if (made || !details.open) return;
    made = true;
    try {
      show(body, await make());
    } catch (problem) {
      made = false;
      show(body, problemBox(problem));
    }
  };
  const details = h("details", { ...attributes, on: { toggle: open } }, h("summary", {}, summary), body);
  return details;
}

/** Functions that are called once when a page is left. */
export function leaving() {
  const ends = new Set();
  return {
    keep: (end) => ends.add(end),
    stop: () => {
      ends.forEach((end) => end());
      ends.clear();
    },
  };
}

/** Do something again and again while the page is looked at; gives what ends it. */
export function repeat(seconds, work) {
  const timer = setInterval(() => document.hidden || work(), seconds * 1000);
  return () => clearInterval(timer);
}

/** Do something when the server answers again after it did not; gives what ends it. */
export function onReturn(work) {
  let down = false;
  return onEvent(["connection"], ({ up }) => {
    if (up && down) work();
    down = !up;
  });
}

/** The same function, called at most once in this time with what came last. */
export function calmly(milliseconds, work) {
  let timer = null;
  const calm = (...given) => {
    calm.given = given;
    timer ??= setTimeout(() => {
      timer = null;
      work(...calm.given);
    }, milliseconds);
  };
  calm.stop = () => clearTimeout(timer);
  return calm;
}

/**
 * A list with filters in the address, page by page.
 *
 * `fields` are {name, label, options?, type?}; `read(filters)` gives {items, next}; `render(items)`
 * gives an element. The address is changed in place, so that the field keeps the focus.
 */
export function pagedList(root, { path, query, fields, read, render, empty, go }) {
  const filters = Object.fromEntries(fields.map(({ name }) => [name, query.get(name) || ""]));
  const cursor = query.get("cursor") || "";
  const list = h("div", { class: "list", "aria-busy": "true" });
  const state = { filters, cursor, first: cursor === "", reload, list };
  let asked = 0;
  async function reload() {
    asked += 1;
    const mine = asked;
    list.setAttribute("aria-busy", "true");
    try {
      const { items, next } = await read({ ...filters, cursor: state.cursor });
      if (mine !== asked) return;
      show(list, items.length ? render(items) : emptyState(empty || t("list.empty")), pageLinks(next));
    } catch (problem) {
      if (mine === asked) show(list, problemBox(problem));
    } finally {
      if (mine === asked) list.setAttribute("aria-busy", "false");
    }
  }
  function pageLinks(next) {
    const back = state.first ? null : h("a", { class: "button", href: pathWith(path, filters) }, t("list.first"));
    const onNext = () => go(pathWith(path, { ...filters, cursor: next }));
    return h("div", { class: "pages" }, back, next ? pager({ next, onNext }) : null);
  }
  const change = (name, value) => {
    if (filters[name] === value) return;
    filters[name] = value;
    Object.assign(state, { cursor: "", first: true });
    history.replaceState(history.state, "", pathWith(path, filters));
    reload();
  };
  const form = filterForm(fields, filters, change);
  root.append(form, list);
  const here = leaving();
  here.keep(onReturn(reload));
  here.keep(
    setKeys([
      { key: "/", text: t("list.search"), run: () => form.querySelector("input, select").focus() },
      { key: "j", text: t("list.down"), run: () => moveFocus(list, 1) },
      { key: "k", text: t("list.up"), run: () => moveFocus(list, -1) },
    ]),
  );
  state.stop = here.stop;
  return state;
}

function moveFocus(list, step) {
  const links = [...list.querySelectorAll("tbody th a")];
  const place = links.indexOf(document.activeElement) + step;
  links[Math.min(links.length - 1, Math.max(0, place))]?.focus();
}

/** A form of filters. What is typed holds after a moment, so that one need not press Enter. */
export function filterForm(fields, filters, change) {
  const inputs = fields.map((field) => {
    const typed = calmly(400, change);
    const name = field.name;
    const input = field.options ? choiceField(field, filters[name], change) : textField(field, filters[name], typed);
    return h("label", { class: "filter" }, h("span", {}, t(field.label)), input);
  });
  return h("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } }, inputs);
}

function textField({ name, type }, value, typed) {
  const input = h("input", { name, type: type || "search", autocomplete: "off", spellcheck: "false", maxlength: "500" });
  input.value = value;
  input.addEventListener("input", () => typed(name, input.value.trim()));
  return input;
}

function choiceField({ name, options }, value, change) {
  const known = options.some(([each]) => each === value) ? options : [...options, [value, escapeText(value)]];
  const select = choice(known, value, (chosen) => change(name, chosen));
  select.name = name;
  return select;
}
