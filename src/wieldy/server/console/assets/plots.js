// Plots of calls over time: rate and failures, latency, cost; and the figures by tool and by caller.
import { get } from "./api.js";
import { h, outside, show } from "./dom.js";
import { dataTable, filterForm, folded, leaving, onReturn, pathWith, repeat } from "./page_parts.js";
import { amount, duration, emptyState, fullTime, problemBox } from "./parts.js";
import { languageTag, t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const HOURS = { "1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720 };
const HEIGHT = 180;
const EDGE = { left: 52, right: 10, top: 10, bottom: 24 };
const PERCENTILES = ["p50", "p90", "p99"];

export default {
  path: "/plots",
  nav: "plots",
  title: "plots.title",
  role: "call",
  async show(root, { query, may }) {
    const here = leaving();
    const filters = { span: Object.hasOwn(HOURS, query.get("span")) ? query.get("span") : "24h", tool: query.get("tool") || "", caller: query.get("caller") || "" };
    const body = h("div", { class: "plots" });
    let answer = null;
    const draw = () => answer && body.clientWidth && show(body, ...drawAll(answer, body.clientWidth));
    const load = async () => {
      try {
        answer = await readPlots(filters);
        draw();
      } catch (problem) {
        answer = null;
        show(body, problemBox(problem));
      }
    };
    const change = (name, value) => {
      filters[name] = value;
      history.replaceState(history.state, "", pathWith("/plots", filters));
      load();
    };
    root.append(h("h1", {}, t("plots.title")), filterForm(fields(may), filters, change), body);
    here.keep(watchWidth(body, draw));
    here.keep(repeat(60, load));
    here.keep(onReturn(load));
    await load();
    return here.stop;
  },
};

function fields(may) {
  const options = Object.keys(HOURS).map((span) => [span, t(`plots.${span}`)]);
  return [
    { name: "span", label: "plots.span", options },
    { name: "tool", label: "calls.tool" },
    // Callers see their own calls only.
    ...(may("approve") ? [{ name: "caller", label: "calls.caller" }] : []),
  ];
}

async function readPlots({ span, tool, caller }) {
  const since = new Date(Date.now() - HOURS[span] * 3600_000);
  const answer = await get("/plots", { since: since.toISOString(), tool, caller });
  return { ...answer, since: new Date(answer.since), until: new Date(answer.until) };
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
    figure("plots.rate", answer, width, [bars("calls", "calls"), bars("failures", "failures")], amount),
    figure("plots.latency", answer, width, PERCENTILES.map((each) => line(each, each)), duration),
    spent ? figure("plots.cost", answer, width, [bars("cost", "cost")], costText) : null,
    figureTable("plots.by_tool", answer.by_tool, "calls.tool", "tool"),
    figureTable("plots.by_caller", answer.by_caller, "calls.caller", "caller"),
  ];
}

const bars = (name, style) => ({ name, style, draw: drawBars });
const line = (name, style) => ({ name, style, draw: drawLine });

function costText(value) {
  return new Intl.NumberFormat(languageTag(), { maximumSignificantDigits: 3 }).format(value);
}

function totals(buckets) {
  const sum = (name) => buckets.reduce((all, bucket) => all + (bucket[name] || 0), 0);
  const calls = sum("calls");
  const share = calls ? (100 * sum("failures")) / calls : 0;
  const facts = { calls: amount(calls), failures: amount(sum("failures")), share: share.toFixed(1), cost: costText(sum("cost")) };
  return h("p", { class: "totals" }, t(sum("cost") ? "plots.totals_cost" : "plots.totals", facts));
}

/** One plot with its legend, and the same figures as a table. */
function figure(title, answer, width, series, format) {
  const caption = h("figcaption", {}, h("h2", {}, t(title)), legend(series));
  const names = series.map((each) => `plots.${each.name}`);
  const rows = () =>
    answer.buckets.filter((bucket) => bucket.calls).map((bucket) => [
      fullTime(bucket.at),
      ...series.map((each) => say(bucket[each.name], format)),
    ]);
  const table = folded(t("plots.table"), () => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t(title) }, dataTable(t(title), ["calls.when", ...names], rows())));
  return h("figure", { class: "plot" }, caption, drawPlot(t(title), answer, width, series, format), table);
}

function say(value, format) {
  return value === null || value === undefined ? "–" : format(value);
}

function legend(series) {
  const items = series.map((each) => h("li", {}, h("span", { class: `swatch swatch-${each.style}` }), t(`plots.${each.name}`)));
  return h("ul", { class: "legend", "aria-hidden": "true" }, items);
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
  const [start, end] = [answer.since.getTime(), answer.until.getTime()];
  const inner = { width: Math.max(50, width - EDGE.left - EDGE.right), height: HEIGHT - EDGE.top - EDGE.bottom };
  const scale = {
    x: (at) => EDGE.left + (inner.width * (Math.min(end, Math.max(start, at)) - start)) / (end - start),
    y: (value) => EDGE.top + inner.height * (1 - value / most),
    bar: Math.max(1, (inner.width * answer.bucket_seconds * 1000) / (end - start) - 1),
    step: answer.bucket_seconds * 1000,
  };
  const peak = series.map((each) => `${t(`plots.${each.name}`)}: ${say(Math.max(0, ...answer.buckets.map((b) => b[each.name] || 0)), format)}`);
  const label = t("plots.peak", { title, peak: peak.join(", ") });
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label, class: "chart" },
    ...gridLines(most, width, scale, format),
    ...timeMarks(start, end, inner.width, scale),
    ...series.flatMap((each) => each.draw(answer.buckets, each, scale)),
    ...hovers(answer.buckets, series, scale, inner.height, format),
  );
}

/** The next round number, so that the marks are round ones too. */
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

function drawBars(buckets, { name, style }, scale) {
  return buckets.filter((bucket) => bucket[name] > 0).map((bucket) => {
    const y = scale.y(bucket[name]);
    const box = { x: scale.x(new Date(bucket.at).getTime()), y, width: scale.bar, height: scale.y(0) - y };
    return svg("rect", { ...box, class: `bar bar-${style}` });
  });
}

/** Lines are broken where nothing was called; a single point is a dot. */
function drawLine(buckets, { name, style }, scale) {
  const runs = [];
  let last = -Infinity;
  for (const bucket of buckets) {
    const at = new Date(bucket.at).getTime();
    if (!bucket.calls || !Number.isFinite(bucket[name])) continue;
    if (at - last > scale.step * 1.5) runs.push([]);
    runs.at(-1).push([scale.x(at) + scale.bar / 2, scale.y(bucket[name])]);
    last = at;
  }
  return runs.map((points) =>
    points.length === 1
      ? svg("circle", { cx: points[0][0], cy: points[0][1], r: 2, class: `dot dot-${style}` })
      : svg("polyline", { points: points.map((point) => point.join(",")).join(" "), class: `line line-${style}` }),
  );
}

function hovers(buckets, series, scale, height, format) {
  return buckets.filter((bucket) => bucket.calls).map((bucket) => {
    const said = series.map((each) => `${t(`plots.${each.name}`)}: ${say(bucket[each.name], format)}`);
    const box = { x: scale.x(new Date(bucket.at).getTime()), y: EDGE.top, width: scale.bar + 1, height };
    return svg("rect", { ...box, class: "hover" }, svg("title", {}, [fullTime(bucket.at), ...said].join("\n")));
  });
}

function figureTable(title, groups, head, field) {
  const rows = (groups || []).map((each) => [
    each.name === null ? t("calls.nobody") : h("a", { href: pathWith("/plots", { [field]: each.name }) }, outside(each.name)),
    amount(each.calls),
    failureCell(each),
    ...PERCENTILES.map((name) => say(each[name], duration)),
    each.cost ? costText(each.cost) : "–",
  ]);
  const heads = [head, "plots.calls", "plots.failures", "plots.p50", "plots.p90", "plots.p99", "plots.cost"];
  return h("section", { class: "part numbers" }, h("h2", {}, t(title)), dataTable(t(title), heads, rows));
}

function failureCell({ failures, calls }) {
  return failures ? `${amount(failures)} (${((100 * failures) / calls).toFixed(1)} %)` : "0";
}
