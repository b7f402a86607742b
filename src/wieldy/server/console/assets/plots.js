// Plots of calls over time: rate and failures, latency, cost; and the figures by tool and by caller.
import { get, may, pathWith } from "./api.js";
import { h, outside, show } from "./dom.js";
import { dataTable, filterForm, folded, loader, onReturn, repeat } from "./page_parts.js";
import { amount, duration, emptyState, fullTime, sayLength, scrollBox } from "./parts.js";
import { languageTag, t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const HOURS = { "1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720 };
const HEIGHT = 180;
const EDGE = { left: 76, right: 10, top: 10, bottom: 24 };
const PERCENTILES = ["p50", "p90", "p99"];

export default {
  path: "/plots",
  async show(root, { query, me, keep, setQuery }) {
    const span = Object.hasOwn(HOURS, query.get("span")) ? query.get("span") : "24h";
    const filters = { span, tool: query.get("tool") || "", caller: query.get("caller") || "" };
    const body = h("div.plots");
    let answer = null;
    const draw = () => answer && body.clientWidth && show(body, drawAll(answer, body.clientWidth));
    const load = loader(body, () => readPlots(filters), (found) => {
      answer = found;
      draw();
    });
    const change = (name, value) => {
      filters[name] = value;
      setQuery(filters);
      load();
    };
    root.append(h("h1", t("label.plots")), filterForm(fields(me), filters, change), body);
    keep(watchWidth(body, draw));
    keep(repeat(60, load));
    keep(onReturn(load));
    await load();
  },
};

function fields(me) {
  const options = Object.entries(HOURS).map(([span, hours]) => [span, sayLength(hours * 3600)]);
  // Callers see their own calls only.
  return [{ name: "span", options }, { name: "tool" }, ...(may(me, "approve") ? [{ name: "caller" }] : [])];
}

async function readPlots({ span, tool, caller }) {
  const since = new Date(Date.now() - HOURS[span] * 3600_000);
  return get("/plots", { since: since.toISOString(), tool, caller });
}

function watchWidth(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    // Drawing changes the height, which is no reason to draw again.
    if (element.clientWidth !== width) requestAnimationFrame(draw);
    width = element.clientWidth;
  });
  observer.observe(element);
  return () => observer.disconnect();
}

function drawAll(answer, width) {
  if (!answer.buckets.some((bucket) => bucket.calls)) return [emptyState(t("plots.empty"))];
  const spent = answer.buckets.some((bucket) => bucket.cost);
  return [
    totals(answer.buckets),
    figure("plots.rate", answer, width, [bars("calls"), bars("failures")], amount),
    figure("plots.latency", answer, width, PERCENTILES.map(line), duration),
    spent ? figure("label.cost", answer, width, [bars("cost")], costText) : null,
    figureTable("plots.by_tool", answer.by_tool, "tool"),
    figureTable("plots.by_caller", answer.by_caller, "caller"),
  ];
}

const bars = (name) => ({ name, draw: drawBars });
const line = (name) => ({ name, draw: drawLine });

function costText(value) {
  return new Intl.NumberFormat(languageTag(), { maximumSignificantDigits: 3 }).format(value);
}

function totals(buckets) {
  const sum = (name) => buckets.reduce((all, bucket) => all + (bucket[name] || 0), 0);
  const calls = sum("calls");
  const share = calls ? (100 * sum("failures")) / calls : 0;
  const facts = { calls: amount(calls), failures: amount(sum("failures")), share: share.toFixed(1) };
  return h("p.totals", t("plots.totals", facts), sum("cost") ? ` · ${t("label.cost")}: ${costText(sum("cost"))}` : null);
}

function figure(title, answer, width, series, format) {
  const caption = h("figcaption", h("h2", t(title)), legend(series));
  const names = series.map((each) => each.name);
  const row = (bucket) => [fullTime(bucket.at), ...names.map((name) => say(bucket[name], format))];
  const rows = () => answer.buckets.filter((bucket) => bucket.calls).map(row);
  const table = folded(t("plots.table"), () => scrollBox(t(title), dataTable(t(title), ["when", ...names], rows())));
  return h("figure.plot", caption, drawPlot(t(title), answer, width, series, format), table);
}

function say(value, format) {
  return value === null || value === undefined ? "–" : format(value);
}

function legend(series) {
  const items = series.map((each) => h("li", h("span", { class: `swatch plot-${each.name}` }), t(`label.${each.name}`)));
  return h("ul.legend", { "aria-hidden": "true" }, items);
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function drawPlot(title, answer, width, series, format) {
  const values = answer.buckets.flatMap((bucket) => series.map((each) => bucket[each.name] || 0));
  const most = roundUp(Math.max(0, ...values));
  const [start, end] = [Date.parse(answer.since), Date.parse(answer.until)];
  const inner = { width: Math.max(50, width - EDGE.left - EDGE.right), height: HEIGHT - EDGE.top - EDGE.bottom };
  const scale = {
    x: (at) => EDGE.left + (inner.width * (Math.min(end, Math.max(start, at)) - start)) / (end - start),
    y: (value) => EDGE.top + inner.height * (1 - value / most),
    bar: Math.max(1, (inner.width * answer.bucket_seconds * 1000) / (end - start) - 1),
    step: answer.bucket_seconds * 1000,
  };
  const peak = ({ name }) => `${t(`label.${name}`)}: ${format(Math.max(0, ...answer.buckets.map((bucket) => bucket[name] || 0)))}`;
  const label = t("plots.peak", { title, peak: series.map(peak).join(", ") });
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label },
    ...gridLines(most, width, scale, format),
    ...timeMarks(start, end, inner.width, scale),
    ...series.flatMap((each) => each.draw(answer.buckets, each, scale)),
    ...hovers(answer.buckets, series, scale, inner.height, format),
  );
}

function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.4, 2, 3, 4, 6, 8, 10].map((each) => each * power).find((each) => each >= value * 0.999);
}

function gridLines(most, width, scale, format) {
  return [0, 0.5, 1].flatMap((share) => {
    const y = scale.y(most * share);
    return [
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y, class: "grid" }),
      svg("text", { x: EDGE.left - 6, y: y + 4, "text-anchor": "end" }, share ? format(most * share) : "0"),
    ];
  });
}

function timeMarks(start, end, width, scale) {
  const count = Math.max(2, Math.min(6, Math.floor(width / 110)));
  const days = end - start > 36 * 3600_000;
  const options = days ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" };
  const marks = Array.from({ length: count }, (_, place) => start + ((end - start) * (place + 0.5)) / count);
  return marks.map((at) =>
    svg("text", { x: scale.x(at), y: HEIGHT - 6, "text-anchor": "middle" }, new Date(at).toLocaleString(languageTag(), options)),
  );
}

function drawBars(buckets, { name }, scale) {
  return buckets.filter((bucket) => bucket[name] > 0).map((bucket) => {
    const y = scale.y(bucket[name]);
    return svg("rect", { x: scale.x(Date.parse(bucket.at)), y, width: scale.bar, height: scale.y(0) - y, class: `bar plot-${name}` });
  });
}

/** Lines are broken where nothing was called; a single point is a dot. */
function drawLine(buckets, { name }, scale) {
  const runs = [];
  let last = -Infinity;
  for (const bucket of buckets) {
    const at = Date.parse(bucket.at);
    if (!bucket.calls || !Number.isFinite(bucket[name])) continue;
    if (at - last > scale.step * 1.5) runs.push([]);
    runs.at(-1).push([scale.x(at) + scale.bar / 2, scale.y(bucket[name])]);
    last = at;
  }
  return runs.map((points) =>
    points.length === 1
      ? svg("circle", { cx: points[0][0], cy: points[0][1], r: 2, class: `bar plot-${name}` })
      : svg("polyline", { points: points.map((point) => point.join(",")).join(" "), class: `line plot-${name}` }),
  );
}

function hovers(buckets, series, scale, height, format) {
  return buckets.filter((bucket) => bucket.calls).map((bucket) => {
    const said = series.map((each) => `${t(`label.${each.name}`)}: ${say(bucket[each.name], format)}`);
    const box = { x: scale.x(Date.parse(bucket.at)), y: EDGE.top, width: scale.bar + 1, height, class: "hover" };
    return svg("rect", box, svg("title", {}, [fullTime(bucket.at), ...said].join("\n")));
  });
}

function figureTable(title, groups, field) {
  const rows = (groups || []).map((each) => [
    each.name === null ? "–" : h("a", { href: pathWith("/plots", { [field]: each.name }) }, outside(each.name)),
    amount(each.calls),
    failureCell(each),
    ...PERCENTILES.map((name) => say(each[name], duration)),
    each.cost ? costText(each.cost) : "–",
  ]);
  const heads = [field, "calls", "failures", "p50", "p90", "p99", "cost"];
  return h("section.part.numbers", h("h2", t(title)), dataTable(t(title), heads, rows));
}

function failureCell({ failures, calls }) {
  return failures ? `${amount(failures)} (${((100 * failures) / calls).toFixed(1)} %)` : "0";
}
