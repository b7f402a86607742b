// A unified diff as a table with the old text on the left and the new one on the right.
import { h, outside } from "./dom.js";
import { t } from "./words.js";

const ROWS_AT_ONCE = 500;
const LONGEST_LINE = 2000;

/** Rows {old, oldNumber, new, newNumber, kind} of a unified diff; kind: same, changed or gap. */
export function readDiff(text) {
  const rows = [];
  let removed = [];
  let added = [];
  let place = null;
  const flush = () => {
    for (let n = 0; n < Math.max(removed.length, added.length); n += 1) {
      rows.push({ kind: "changed", ...(removed[n] || {}), ...(added[n] || {}) });
    }
    removed = [];
    added = [];
  };
  for (const line of text.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      flush();
      if (place !== null) rows.push({ kind: "gap" });
      place = { old: Number(hunk[1]), new: Number(hunk[2]) };
    } else if (place !== null && line[0] === "-") {
      removed.push({ old: line.slice(1), oldNumber: place.old++ });
    } else if (place !== null && line[0] === "+") {
      added.push({ new: line.slice(1), newNumber: place.new++ });
    } else if (place !== null && line[0] === " ") {
      flush();
      const same = line.slice(1);
      rows.push({ kind: "same", old: same, oldNumber: place.old++, new: same, newNumber: place.new++ });
    }
  }
  flush();
  return rows;
}

/** A diff, the two sides next to each other; long ones are shown piece by piece. */
export function diffView(text, oldName, newName) {
  const rows = readDiff(text);
  if (!rows.length) return h("p", { class: "note" }, t("diff.same"));
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "diff" },
    h("caption", { class: "unseen" }, t("diff.caption", { old: oldName, new: newName })),
    h("colgroup", {}, ["number", "line", "number", "line"].map((each) => h("col", { class: `diff-${each}-column` }))),
    h("thead", {}, h("tr", {}, headCell(oldName), headCell(newName))),
    body,
  );
  const frame = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("diff.title") }, table);
  const box = h("div", {}, frame);
  let shown = 0;
  const more = h("button", { type: "button", on: { click: () => grow() } });
  const grow = () => {
    body.append(...rows.slice(shown, shown + ROWS_AT_ONCE).map(diffRow));
    shown = Math.min(rows.length, shown + ROWS_AT_ONCE);
    if (shown < rows.length) {
      more.textContent = t("list.more_of", { left: rows.length - shown });
      box.append(more);
    } else {
      more.remove();
    }
  };
  grow();
  return box;
}

function headCell(name) {
  return h("th", { scope: "col", colspan: "2" }, name);
}

function diffRow(row) {
  if (row.kind === "gap") {
    return h("tr", { class: "diff-gap" }, h("td", { colspan: "4" }, "⋯"));
  }
  const changed = row.kind === "changed";
  return h(
    "tr",
    { class: changed ? "diff-changed" : "diff-same" },
    ...diffCells(row.oldNumber, row.old, changed ? "−" : " ", "diff-old"),
    ...diffCells(row.newNumber, row.new, changed ? "+" : " ", "diff-new"),
  );
}

function diffCells(number, line, mark, side) {
  if (line === undefined) return [h("td", { class: "diff-number" }), h("td", { class: "diff-none" })];
  return [
    h("td", { class: "diff-number" }, String(number)),
    h("td", { class: side }, h("span", { class: "diff-mark" }, mark), outside(line, { longest: LONGEST_LINE })),
  ];
}
