// One artifact: a version of it, and two versions side by side.
import { get, part } from "./api.js";
import { artifactFile, cutNote, saveLink } from "./content_blocks.js";
import { diffView } from "./diff_view.js";
import { h, outside, escapeText, show } from "./dom.js";
import { jsonView } from "./json_view.js";
import { filterForm, linkTo, pathWith, section } from "./page_parts.js";
import { amount, codeText, facts, fullTime, moment, problemBox } from "./parts.js";
import { t } from "./words.js";

const MOST_CHOICES = 500;
const LARGEST_JSON = 20_000_000;

export default {
  path: "/artifacts/:id",
  nav: null,
  under: "artifacts",
  title: "artifact.title",
  role: "call",
  async show(root, { params, query }) {
    const page = new ArtifactPage(params.id, query);
    root.append(page.element);
    await page.start();
  },
};

class ArtifactPage {
  constructor(id, query) {
    this.id = id;
    this.session = query.get("session") || "";
    this.chosen = { old: query.get("old") || "", new: query.get("new") || "" };
    this.whole = false;
    this.head = h("div", {}, h("h1", {}, t("artifact.title")));
    this.choices = h("div", {});
    this.body = h("div", { "aria-live": "polite" });
    this.element = h("div", {}, this.head, this.choices, this.body);
  }

  async start() {
    try {
      const { versions } = await this.ask("artifact-versions");
      this.versions = versions;
      this.chosen.new ||= String(versions.at(-1).version);
      this.choices.append(filterForm(this.fields(), this.chosen, (name, value) => this.choose(name, value)));
    } catch (problem) {
      show(this.body, problemBox(problem));
      return;
    }
    await this.load();
  }

  ask(kind, params = {}) {
    return get(`/${kind}/${part(this.id)}`, { session: this.session, ...params });
  }

  fields() {
    const last = this.versions.slice(-MOST_CHOICES).reverse();
    const options = last.map(({ version, at, by }) => [String(version), versionText(version, at, by)]);
    return [
      { name: "new", label: "artifact.version", options },
      { name: "old", label: "artifact.compare", options: [["", t("artifact.nothing")], ...options] },
    ];
  }

  choose(name, value) {
    this.chosen[name] = value;
    this.whole = false;
    history.replaceState(history.state, "", pathWith(`/artifacts/${part(this.id)}`, { session: this.session, ...this.chosen }));
    return this.load();
  }

  async load() {
    const { old, new: version } = this.chosen;
    try {
      const found = await this.ask("artifacts", { version, ...(this.whole ? { whole: true } : {}) });
      const diff = old ? await this.ask("artifact-diffs", { old, new: version }) : null;
      if (old !== this.chosen.old || version !== this.chosen.new) return;
      this.put(found, diff);
    } catch (problem) {
      show(this.body, problemBox(problem));
    }
  }

  put(found, diff) {
    show(this.head, heading(found));
    const names = [this.chosen.old, this.chosen.new].map((version) => t("artifact.numbered", { version }));
    const wanted = () => {
      this.whole = true;
      return this.load();
    };
    show(
      this.body,
      diff ? section(t("diff.title"), diffView(diff.diff, ...names)) : null,
      section(t("artifact.content"), h("p", {}, saveLink(artifactFile(found))), cutNote(found, wanted), contentView(found)),
    );
  }
}

function versionText(version, at, by) {
  const author = by ? ` · ${escapeText(by).slice(0, 60)}` : "";
  return `${t("artifact.numbered", { version })} · ${fullTime(at)}${author}`;
}

function heading(found) {
  const author = found.by && /^call_/.test(found.by) ? linkTo("calls", found.by) : found.by && outside(found.by);
  return h(
    "div",
    {},
    h("p", { class: "crumbs" }, h("a", { href: "/artifacts" }, t("artifacts.title"))),
    h("h1", {}, outside(found.title || found.id)),
    found.untrusted ? h("p", { class: "note" }, t("artifact.untrusted")) : null,
    facts(
      [t("artifact.id"), h("code", {}, outside(found.id))],
      [t("artifacts.version"), amount(found.version)],
      [t("artifacts.type"), outside(found.content_type)],
      [t("calls.session"), found.session && outside(found.session)],
      [t("artifacts.changed"), moment(found.at)],
      [t("artifact.by"), author],
    ),
  );
}

function contentView({ content, content_type: type, cut }) {
  if (/json/i.test(type) && !cut.length && content.length < LARGEST_JSON) {
    try {
      return jsonView(JSON.parse(content), { depth: 2 });
    } catch {
      // It says that it is JSON, and is not.
    }
  }
  return codeText(content, { label: t("artifact.content") });
}
