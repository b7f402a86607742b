// The runs of agents, the newest first.
import { get } from "./api.js";
import { h, outside } from "./dom.js";
import { onEvent } from "./live.js";
import { calmly, dataTable, leaving, linkTo, pagedList } from "./page_parts.js";
import { amount, badge, moment } from "./parts.js";
import { t } from "./words.js";

const STATES = ["running", "interrupted", "crashed", "failed", "cancelled", "done"];
const HEADS = ["runs.agent", "calls.state", "runs.steps", "calls.session", "runs.began", "runs.changed", "calls.says"];

export default {
  path: "/runs",
  nav: "runs",
  title: "runs.title",
  role: "call",
  async show(root, { query, go }) {
    const here = leaving();
    root.append(h("h1", {}, t("runs.title")));
    const list = pagedList(root, {
      path: "/runs",
      query,
      go,
      fields: [
        { name: "state", label: "calls.state", options: [["", t("list.any")], ...STATES.map((state) => [state, t(`state.run-${state}`)])] },
        { name: "agent", label: "runs.agent" },
        { name: "session", label: "calls.session" },
      ],
      read: async (filters) => {
        const answer = await get("/runs", { ...filters, limit: 50 });
        return { items: answer.runs, next: answer.next_cursor };
      },
      render: (runs) => dataTable(t("runs.title"), HEADS, runs.map(runCells)),
      empty: t("runs.empty"),
    });
    // A run is told by the calls that it makes.
    const reload = calmly(1000, () => list.first && list.reload());
    here.keep(reload.stop);
    here.keep(onEvent(["call", "pending", "reset"], (call, name) => (name === "reset" || call.run) && reload()));
    here.keep(list.stop);
    await list.reload();
    return here.stop;
  },
};

function runCells(run) {
  return [
    linkTo("runs", run.run_id, run.agent || run.run_id),
    runBadge(run.state),
    amount(run.steps),
    run.session === null ? "–" : outside(run.session),
    moment(run.created_at),
    moment(run.changed_at),
    run.error ? outside(run.error) : "",
  ];
}

/** The state of a run. Its words differ from those for calls. */
export function runBadge(state) {
  return badge(`run-${state}`, `run-${state}`);
}
