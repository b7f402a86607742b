// A unified diff as a table: the old text on the left, the new one on the right.
import { h, outside } from "./dom.js";
import { growing, note, scrollBox } from "./parts.js";
import { t } from "./words.js";

const ROWS_AT_ONCE = 500;
const LONGEST_LINE = 2000;

// Rows {old, oldNumber, new, newNumber, kind} of a unified diff; kind: same, changed or gap.
function readDiff(text) {
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

/** A diff, its two sides next to each other, piece by piece. */
export function diffView(text, oldName, newName) {
  const rows = readDiff(text);
  if (!rows.length) return note(t("diff.same"));
  const body = h("tbody");
  const table = h(
    "table.diff",
    h("caption.unseen", t("diff.caption", { old: oldName, new: newName })),
    h("colgroup", h("col"), h("col"), h("col"), h("col")),
    h("thead", h("tr", headCell(oldName), headCell(newName))),
    body,
  );
  const box = h("div", scrollBox(t("diff.title"), table));
  growing(box, "items", rows.length, (from) => {
    body.append(...rows.slice(from, from + ROWS_AT_ONCE).map(diffRow));
    return from + ROWS_AT_ONCE;
  });
  return box;
}

function headCell(name) {
  return h("th", { scope: "col", colspan: "2" }, name);
}

function diffRow(row) {
  if (row.kind === "gap") return h("tr.diff-gap", h("td", { colspan: "4" }, "⋯"));
  const changed = row.kind === "changed";
  return h(
    "tr",
    { class: changed ? "diff-changed" : "diff-same" },
    ...diffCells(row.oldNumber, row.old, changed ? "−" : " ", "diff-old"),
    ...diffCells(row.newNumber, row.new, changed ? "+" : " ", "diff-new"),
  );
}

function diffCells(number, line, mark, side) {
  if (line === undefined) return [h("td.diff-number"), h("td.diff-none")];
  return [
    h("td.diff-number", String(number)),
    h("td", { class: side }, h("span.diff-mark", mark), outside(line, { longest: LONGEST_LINE })),
  ];
}
