// The documents and large results in the store.
import { get } from "./api.js";
import { h, outside } from "./dom.js";
import { dataTable, linkTo, pagedList } from "./page_parts.js";
import { amount, moment } from "./parts.js";
import { t } from "./words.js";

const HEADS = ["artifacts.name", "artifacts.version", "artifacts.type", "calls.session", "artifacts.changed"];

export default {
  path: "/artifacts",
  nav: "artifacts",
  title: "artifacts.title",
  role: "call",
  async show(root, { query, go }) {
    root.append(h("h1", {}, t("artifacts.title")));
    const list = pagedList(root, {
      path: "/artifacts",
      query,
      go,
      fields: [{ name: "session", label: "calls.session" }],
      read: async (filters) => {
        const answer = await get("/artifacts", { ...filters, limit: 50 });
        return { items: answer.artifacts, next: answer.next_cursor };
      },
      render: (found) => dataTable(t("artifacts.title"), HEADS, found.map(artifactCells)),
      empty: t("artifacts.empty"),
    });
    await list.reload();
    return list.stop;
  },
};

function artifactCells(artifact) {
  return [
    linkTo("artifacts", artifact.id, artifact.title || artifact.id, { session: artifact.session }),
    amount(artifact.version),
    outside(artifact.content_type),
    artifact.session === null ? "–" : outside(artifact.session),
    moment(artifact.changed_at),
  ];
}
