// The catalogue of tools that the person can call.
import { get } from "./api.js";
import { h, outside } from "./dom.js";
import { dataTable, linkTo, pagedList } from "./page_parts.js";
import { amount, badge } from "./parts.js";
import { t } from "./words.js";

const HEADS = ["tools.name", "tools.description", "tools.permission", "tools.source", "tools.tokens", "tools.lock"];

export default {
  path: "/tools",
  nav: "tools",
  title: "tools.title",
  role: "call",
  async show(root, { query, go }) {
    root.append(h("h1", {}, t("tools.title")));
    const list = pagedList(root, {
      path: "/tools",
      query,
      go,
      fields: [{ name: "search", label: "list.search" }],
      read: async (filters) => {
        const answer = await get("/tools", { ...filters, limit: 100 });
        return { items: answer.tools, next: answer.next_cursor };
      },
      render: (tools) => dataTable(t("tools.title"), HEADS, tools.map(toolCells)),
      empty: t("tools.empty"),
    });
    await list.reload();
    return list.stop;
  },
};

function toolCells(tool) {
  return [
    linkTo("tools", tool.name),
    h("div", { class: "says" }, outside(tool.description)),
    permissionBadge(tool.permission),
    tool.server ? linkTo("servers", tool.server) : outside(tool.source),
    Number.isFinite(tool.tokens) ? amount(tool.tokens) : "–",
    lockBadge(tool.lock),
  ];
}

/** What the permission of a tool says. */
export function permissionBadge(permission) {
  return badge(`permission-${permission}`, `permission-${permission}`);
}

/** How a tool stands to the lock; nothing where there is no lock. */
export function lockBadge(lock) {
  const state = typeof lock === "string" ? lock : lock?.state;
  return state && state !== "none" ? badge(`lock-${state}`, `lock-${state}`) : "";
}
