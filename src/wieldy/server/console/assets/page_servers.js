// The MCP servers: how they are, connect one again, and what it wrote to stderr.
import { get, hasRole, part, pathWith, post } from "./api.js";
import { h, longText, outside, show } from "./dom.js";
import { folded, loader, onReturn, repeat } from "./page_parts.js";
import { announce, badge, button, codeText, emptyState, facts, note } from "./parts.js";
import { t } from "./words.js";

const REFRESH = 15;

export default {
  path: "/servers",
  async show(root, { params, me, keep }) {
    const list = h("div.servers");
    const cards = new Map();
    const load = loader(list, () => get("/servers"), ({ servers }) => putCards(list, cards, servers, me, load));
    root.append(h("h1", t("label.servers")), list);
    keep(repeat(REFRESH, load));
    keep(onReturn(load));
    await load();
    cards.get(params.name)?.element.scrollIntoView();
  },
};

// Cards stay when the list is read again, so that what was opened stays open.
function putCards(list, cards, servers, me, load) {
  const wanted = servers.map((server) => {
    if (!cards.has(server.name)) cards.set(server.name, new ServerCard(server.name, me, load));
    cards.get(server.name).put(server);
    return cards.get(server.name).element;
  });
  const same = wanted.length && wanted.length === list.children.length && wanted.every((each, place) => each === list.children[place]);
  if (!same) show(list, wanted.length ? wanted : emptyState(t("servers.empty")));
}

class ServerCard {
  constructor(name, me, load) {
    Object.assign(this, { name, load });
    this.facts = h("div");
    this.trouble = h("div");
    this.state = h("span");
    const administers = hasRole(me, "administer");
    this.again = administers ? button(t("servers.reconnect"), () => this.reconnect(), { trouble: this.trouble }) : null;
    this.element = h(
      "article.card",
      h("div.page-head", h("h2", outside(name)), this.state, this.again),
      this.facts,
      this.trouble,
      administers ? folded(t("servers.stderr"), () => this.readErrors()) : null,
    );
  }

  put(server) {
    show(this.state, badge(server.connected ? "connected" : "disconnected"));
    const tools = h("a", { href: pathWith("/tools", { search: server.name }) }, t("servers.tools", { count: server.tools }));
    show(
      this.facts,
      facts({ tools, protocol: outside(server.protocol_version), error: longText(server.error) }),
    );
  }

  async readErrors() {
    const box = h("div");
    const load = async () => {
      const { stderr } = await get(`/servers/${part(this.name)}`);
      const text = Array.isArray(stderr) ? stderr.join("\n") : stderr;
      show(box, text ? codeText(text, { label: t("servers.stderr") }) : note(t("servers.no_stderr")), button(t("servers.again"), load));
    };
    await load();
    return box;
  }

  async reconnect() {
    show(this.trouble, note(t("connection.lost")));
    await post(`/servers/${part(this.name)}/reconnect`);
    await this.load();
    show(this.trouble);
    announce(t("servers.reconnected", { name: this.name.slice(0, 100) }));
  }
}
