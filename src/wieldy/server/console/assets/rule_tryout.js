// Would this call run, and which rule says so? Nothing is run.

import { get, part, post } from "./api.js";
import { escapeText, h, outside, show } from "./dom.js";
import { field, newId, problemBox } from "./parts.js";
import { matchedRules } from "./rule_parts.js";
import { schemaForm } from "./schema_form.js";
import { t } from "./words.js";

const DELAY = 300;

/** A card in which a person chooses a tool and arguments, and reads what would become of the call. */
export function makeTryOut({ tool, onTool }) {
  const names = h("datalist", { id: newId("tools") });
  const input = h("input", { type: "text", value: tool, list: names.id, autocomplete: "off", spellcheck: "false", maxlength: "1000" });
  const formBox = h("div");
  const answer = h("div.tryout-answer", { "aria-live": "polite" });
  let form = null;
  let turn = 0;
  let timer;

  const ask = async () => {
    clearTimeout(timer);
    if (!form) return;
    const mine = ++turn;
    try {
      const told = await post("/explain", { tool: input.value, arguments: form.read() });
      if (mine !== turn) return;
      form.setProblems([]);
      show(answer, drawAnswer(told));
    } catch (problem) {
      if (mine !== turn) return;
      if (problem.status === undefined) form.setProblems([problem]);
      else if (problem.code === "invalid_arguments") await tellMisfit(mine);
      else show(answer, problemBox(problem));
    }
  };
  const tellMisfit = async (mine) => {
    const { problems } = await post("/check-arguments", { tool: input.value, arguments: form.read() }).catch(() => ({ problems: [] }));
    if (mine !== turn) return;
    form.setProblems(problems);
    show(answer, h("p.faint", t("tryout.misfit")));
  };
  const askSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, DELAY);
  };
  const choose = async () => {
    const name = input.value;
    const mine = ++turn;
    onTool(name);
    form = null;
    show(formBox);
    show(answer);
    if (!name) return;
    try {
      const found = await get(`/tools/${part(name)}`);
      if (mine !== turn) return;
      form = schemaForm(found.input_schema, {}, { onChange: askSoon });
      show(formBox, h("h3", t("inbox.arguments")), form.element);
      await ask();
    } catch (problem) {
      if (mine === turn) show(answer, problem.status === 404 ? h("p.faint", t("tryout.no_tool")) : problemBox(problem));
    }
  };
  input.addEventListener("change", choose);
  input.addEventListener("input", (event) => {
    // A choice from the list is complete at once; typed characters are not.
    if (event.inputType === undefined || event.inputType === "insertReplacementText") choose();
  });
  const element = h(
    "section",
    { class: "card tryout", "aria-labelledby": "tryout-title" },
    h("div.card-head", h("h2", { id: "tryout-title" }, t("tryout.title"))),
    h("form.card-body.tryout-form", { on: { submit: (event) => { event.preventDefault(); if (form) { form.reveal(); ask(); } else choose(); } } }, h("p.faint", t("tryout.about")), field(t("tryout.tool"), input), names, formBox, answer),
  );
  const load = async () => {
    const { tools } = await get("/tools", { limit: 500 }).catch(() => ({ tools: [] }));
    show(names, tools.map((each) => h("option", { value: each.name }, escapeText(each.description).slice(0, 100))));
    if (tool) await choose();
  };
  return { element, load, ask };
}

function drawAnswer(told) {
  return [
    h("p.tryout-verdict", h("span", { class: `badge badge-${told.decision}` }, t(`tryout.${told.decision}`)), " ", outside(told.because, { longest: 2000 })),
    told.question ? h("p.faint", t("tryout.question"), " ", outside(told.question, { longest: 2000 })) : null,
    h("h3", t("tryout.matched")),
    told.matched.length ? matchedRules(told.matched) : h("p.faint", t("tryout.no_rule")),
  ];
}
