// What several pages are made of: lists with filters, tables, and what is read anew as it changes.
import { get, part, pathWith, writeJson } from "./api.js";
import { h, outside, escapeText, shortText, show } from "./dom.js";
import { setKeys } from "./keyboard.js";
import { isUp, onEvent } from "./live.js";
import { choice, emptyState, field, note, pager, problemBox } from "./parts.js";
import { t } from "./words.js";

// What the API takes.
const longestOf = (name) => (name === "search" ? 200 : 500);

/** A link to the page of a thing, such as linkTo("calls", id); nothing without an id. */
export function linkTo(kind, id, label = id, query = {}) {
  return (id ?? null) === null ? null : h("a", { href: pathWith(`/${kind}/${part(id)}`, query) }, outside(label));
}

/** The head of a page about one thing: the way back, its name, and what stands beside it. */
export function pageHead(list, name, ...beside) {
  return [h("p.crumbs", h("a", { href: `/${list}` }, t(`label.${list}`))), h("div.page-head", h("h1", outside(name)), beside)];
}

/** A table whose rows become cards on a narrow screen. `heads` are names of labels; `rows` are lists of cells. */
export function dataTable(caption, heads, rows) {
  return h(
    "table.cards",
    h("caption.unseen", caption),
    h("thead", h("tr", heads.map((head) => (head ? h("th", { scope: "col" }, t(`label.${head}`)) : h("td"))))),
    h("tbody", rows.map((cells) => tableRow(heads, cells))),
  );
}

function tableRow(heads, cells) {
  const label = (place) => ({ "data-label": heads[place] && t(`label.${heads[place]}`) });
  return h("tr", cells.map((cell, place) => (place ? h("td", label(place), cell) : h("th", { scope: "row", ...label(0) }, cell))));
}

export function section(title, ...content) {
  return h("section.part", h("h2", title), content);
}

/** Something that is made only when it is opened. `make` may be slow, and may fail. */
export function folded(summary, make, attributes = {}) {
  const body = h("div.folded");
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
  const details = h("details", { ...attributes, on: { toggle: open } }, h("summary", summary), body);
  return details;
}

/**
 * A function that reads something and puts it on the page, or a problem into `box`. Only the answer to the
 * last question counts, and what has not changed stays as it is, with what was opened.
 */
export function loader(box, read, put) {
  let asked = 0;
  let before = null;
  return async () => {
    const mine = ++asked;
    try {
      const found = await read();
      const text = writeJson(found);
      if (mine !== asked || text === before) return;
      before = text;
      put(found);
    } catch (problem) {
      if (mine !== asked) return;
      before = null;
      show(box, problemBox(problem));
    }
  };
}

/** Do something again and again while the page is seen; gives what ends it. */
export function repeat(seconds, work) {
  const timer = setInterval(() => document.hidden || work(), seconds * 1000);
  return () => clearInterval(timer);
}

/** Do something when the server is back; gives what ends it. */
export function onReturn(work) {
  let down = isUp() === false;
  return onEvent(["connection"], ({ up }) => {
    if (up && down) work();
    down = !up;
  });
}

/** The same function, called once in this time with what came last. */
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

export function followCalls({ keep }, milliseconds, load, concerns) {
  const soon = calmly(milliseconds, load);
  keep(soon.stop);
  keep(onEvent(["call", "pending", "reset"], (call, name) => (name === "reset" || concerns(call)) && soon()));
}

/** A page that is a list. `what` names it in its address and in the API; `cells(item)` is a row. */
export function listPage({ what, fields, limit, heads, cells, follow = () => {} }) {
  return {
    path: `/${what}`,
    async show(root, context) {
      const render = (items) => dataTable(t(`label.${what}`), heads, items.map(cells));
      const list = pagedList(root, context, { what, fields: fields(), limit, render });
      follow(list, context);
      await list.reload();
    },
  };
}

/**
 * A list with filters in the address, page by page.
 *
 * `fields` are those of a filter form, `ask(filters)` gives parameters of the API, and `render(items)` an
 * element. The address is changed in place, so that the field keeps the focus.
 */
export function pagedList(root, { query, keep, go }, { what, fields, limit = 50, render, ask = (filters) => filters, beside }) {
  const path = `/${what}`;
  const filters = Object.fromEntries(fields.map(({ name }) => [name, (query.get(name) || "").slice(0, longestOf(name))]));
  // What the address asks for and no field offers is left out.
  const wrong = fields.filter(({ name, options }) => options && !options.some(([each]) => each === filters[name]));
  const said = wrong.map(({ name }) => note(t("list.no_choice", { value: shortText(filters[name]) })));
  wrong.forEach(({ name }) => (filters[name] = ""));
  let cursor = query.get("cursor") || "";
  const list = h("div.list", { "aria-busy": "true" });
  const refresh = loader(list, () => get(path, { ...ask(filters), cursor, limit }), (answer) => {
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const items = answer[what];
    show(list, items.length ? render(items) : emptyState(t("list.empty")), pageLinks(answer.next_cursor));
    [...list.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
  });
  let asked = 0;
  const reload = async () => {
    const mine = ++asked;
    list.setAttribute("aria-busy", "true");
    await refresh();
    if (mine === asked) list.setAttribute("aria-busy", "false");
  };
  const pageLinks = (next) => {
    const back = cursor ? h("a.button", { href: pathWith(path, filters) }, t("list.first")) : null;
    return h("div.pages", back, pager({ next, onNext: () => go(pathWith(path, { ...filters, cursor: next })) }));
  };
  const change = (name, value) => {
    if (filters[name] === value) return;
    filters[name] = value;
    cursor = "";
    history.replaceState(history.state, "", pathWith(path, filters));
    reload();
  };
  const form = filterForm(fields, filters, change);
  root.append(h("div.page-head", h("h1", t(`label.${what}`)), beside), form, ...said, list);
  keep(onReturn(refresh));
  keep(
    setKeys([
      { key: "/", text: t("label.search"), run: () => form.querySelector("input, select").focus() },
      { key: "j", text: t("list.down"), run: () => moveFocus(list, 1) },
      { key: "k", text: t("list.up"), run: () => moveFocus(list, -1) },
    ]),
  );
  return { reload, refresh };
}

function moveFocus(list, step) {
  const links = [...list.querySelectorAll("tbody th a")];
  const place = links.indexOf(document.activeElement) + step;
  links[Math.min(links.length - 1, Math.max(0, place))]?.focus();
}

export function stateField(states, stem = "") {
  return { name: "state", options: [["", t("list.any")], ...states.map((state) => [state, t(`state.${stem}${state}`)])] };
}

/**
 * A form of filters, which are {name, label?, options?, type?}. What is typed holds after a moment, so that
 * one need not press Enter.
 */
export function filterForm(fields, filters, change) {
  const inputs = fields.map((each) => {
    const { name, label = name, options } = each;
    const input = options ? choiceField(options, filters[name], (chosen) => change(name, chosen)) : textField(each, filters[name], calmly(400, change));
    input.name = name;
    return field(t(`label.${label}`), input);
  });
  return h("form.filters", { role: "search", on: { submit: (event) => event.preventDefault() } }, inputs);
}

function textField({ name, type = "search" }, value, typed) {
  const input = h("input", { type, autocomplete: "off", spellcheck: "false", maxlength: longestOf(name), value });
  input.addEventListener("input", () => typed(name, input.value.trim()));
  return input;
}

function choiceField(options, value, change) {
  const known = options.some(([each]) => each === value) ? options : [...options, [value, escapeText(value)]];
  return choice(known, value, change);
}
