// The artifacts in the store; and one of them: a version of it, or two side by side.
import { get, part } from "./api.js";
import { artifactFile, cutNote, saveLink } from "./content_blocks.js";
import { diffView } from "./diff_view.js";
import { h, outside, shortText, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { filterForm, linkTo, listPage, loader, pageHead, section } from "./page_parts.js";
import { amount, codeText, facts, fullTime, moment, note } from "./parts.js";
import { t } from "./words.js";

export const list = listPage({
  what: "artifacts",
  fields: () => [{ name: "session" }],
  heads: ["title", "version", "type", "session", "changed"],
  cells: ({ id, title, version, content_type: type, session, changed_at: changed }) => [
    linkTo("artifacts", id, title || id, { session }),
    amount(version),
    outside(type),
    outside(session) ?? "–",
    moment(changed),
  ],
});

const MOST_CHOICES = 500;
const LARGEST_JSON = 20_000_000;

export const one = {
  path: "/artifacts/:id",
  title: "artifact",
  async show(root, { params, query, setQuery }) {
    await new ArtifactPage(root, params.id, query, setQuery).start();
  },
};

class ArtifactPage {
  constructor(root, id, query, setQuery) {
    Object.assign(this, { id, setQuery, session: query.get("session"), whole: null });
    this.chosen = { old: query.get("old") || "", new: query.get("new") || "" };
    this.head = h("div", h("h1", t("label.artifact")));
    this.choices = h("div");
    this.body = h("div", { "aria-live": "polite" });
    this.load = loader(this.body, () => this.read(), (found) => this.put(found));
    root.append(this.head, this.choices, this.body);
  }

  async start() {
    await loader(this.body, () => this.ask("artifact-versions"), ({ versions }) => {
      this.chosen.new ||= String(versions.at(-1).version);
      show(this.choices, filterForm(choiceFields(versions), this.chosen, (name, value) => this.choose(name, value)));
    })();
    if (this.chosen.new) await this.load();
  }

  ask(kind, params = {}) {
    return get(`/${kind}/${part(this.id)}`, { session: this.session, ...params });
  }

  choose(name, value) {
    this.chosen[name] = value;
    this.whole = null;
    this.setQuery(this.chosen);
    return this.load();
  }

  async read() {
    const { old, new: version } = this.chosen;
    const found = await this.ask("artifacts", { version, whole: this.whole });
    const { diff } = old ? await this.ask("artifact-diffs", { old, new: version }) : {};
    return { found, diff, sides: [old, version] };
  }

  put({ found, diff, sides }) {
    show(this.head, heading(found));
    const names = sides.map((version) => t("artifact.numbered", { version }));
    const loadWhole = () => {
      this.whole = true;
      return this.load();
    };
    show(
      this.body,
      diff === undefined ? null : section(t("diff.title"), diffView(diff, ...names)),
      section(t("label.content"), h("p", saveLink(artifactFile(found))), cutNote(found, loadWhole), contentView(found)),
    );
  }
}

function choiceFields(versions) {
  const last = versions.slice(-MOST_CHOICES).reverse();
  const options = last.map(({ version, at, by }) => [String(version), versionText(version, at, by)]);
  return [
    { name: "new", label: "version", options },
    { name: "old", label: "compare", options: [["", t("artifact.nothing")], ...options] },
  ];
}

function versionText(version, at, by) {
  const author = by ? ` · ${shortText(by, 60)}` : "";
  return `${t("artifact.numbered", { version })} · ${fullTime(at)}${author}`;
}

function heading(found) {
  const author = /^call_/.test(found.by) ? linkTo("calls", found.by) : outside(found.by);
  return [
    pageHead("artifacts", found.title || found.id),
    found.untrusted ? note(t("artifact.untrusted")) : null,
    facts({
      id: h("code", outside(found.id)),
      version: amount(found.version),
      type: outside(found.content_type),
      session: outside(found.session),
      changed: moment(found.at),
      by: author,
    }),
  ];
}

function contentView({ content, content_type: type, cut }) {
  if (/json/i.test(type) && !cut.length && content.length < LARGEST_JSON) {
    try {
      return jsonView(JSON.parse(content), { depth: 2 });
    } catch {
      // It says that it is JSON, and is not.
    }
  }
  return codeText(content, { label: t("label.content") });
}
