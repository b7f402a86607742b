// The MCP servers behind the gateway: how they are, connect one again, and what it wrote to stderr.
import { get, hasRole, part, post } from "./api.js";
import { h, outside, show } from "./dom.js";
import { folded, leaving, onReturn, pathWith, repeat } from "./page_parts.js";
import { announce, badge, button, codeText, emptyState, facts, problemBox } from "./parts.js";
import { t } from "./words.js";

const REFRESH = 15;

export default {
  path: "/servers",
  nav: "servers",
  title: "servers.title",
  role: "call",
  async show(root, { params, me }) {
    const here = leaving();
    const list = h("div", { class: "servers" });
    const cards = new Map();
    const load = async () => {
      try {
        const { servers } = await get("/servers");
        putCards(list, cards, servers, me);
      } catch (problem) {
        cards.clear();
        show(list, problemBox(problem));
      }
    };
    root.append(h("h1", {}, t("servers.title")), list);
    here.keep(repeat(REFRESH, load));
    here.keep(onReturn(load));
    await load();
    cards.get(params.name)?.element.scrollIntoView();
    return here.stop;
  },
};

/** Cards stay where they are when the list is read again, so that what was opened stays open. */
function putCards(list, cards, servers, me) {
  const names = new Set(servers.map((server) => server.name));
  for (const [name, card] of cards) {
    if (!names.has(name)) {
      card.element.remove();
      cards.delete(name);
    }
  }
  if (!servers.length) return show(list, emptyState(t("servers.empty")));
  list.querySelector(".empty")?.remove();
  return servers.forEach((server) => {
    if (!cards.has(server.name)) {
      cards.set(server.name, new ServerCard(server.name, me));
      list.append(cards.get(server.name).element);
    }
    cards.get(server.name).put(server);
  });
}

class ServerCard {
  constructor(name, me) {
    this.name = name;
    this.facts = h("div", {});
    this.trouble = h("div", {});
    this.state = h("span", {});
    const administers = hasRole(me, "administer");
    this.again = administers ? button(t("servers.reconnect"), () => this.reconnect()) : null;
    this.element = h(
      "article",
      { class: "card" },
      h("div", { class: "page-head" }, h("h2", {}, outside(name)), this.state, this.again),
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
      facts(
        [t("tools.title"), tools],
        [t("servers.protocol"), server.protocol_version && outside(server.protocol_version)],
        [t("servers.error"), server.error && outside(server.error, { longest: 2000 })],
      ),
    );
  }

  async readErrors() {
    const box = h("div", {});
    const load = async () => {
      const { stderr } = await get(`/servers/${part(this.name)}`);
      const text = Array.isArray(stderr) ? stderr.join("\n") : stderr;
      show(box, text ? codeText(text, { label: t("servers.stderr") }) : h("p", { class: "note" }, t("servers.no_stderr")), button(t("servers.again"), load));
    };
    await load();
    return box;
  }

  async reconnect() {
    this.again.disabled = true;
    show(this.trouble, h("p", { class: "note" }, t("servers.connecting")));
    try {
      this.put(await post(`/servers/${part(this.name)}/reconnect`));
      show(this.trouble);
      announce(t("servers.reconnected", { name: this.name.slice(0, 100) }));
    } catch (problem) {
      show(this.trouble, problemBox(problem));
    }
    this.again.disabled = false;
  }
}
