// Would this call run, and which rule says so? Nothing is run.

import { get, part } from "./api.js";
import { argumentForm } from "./argument_form.js";
import { h, longText, shortText, show } from "./dom.js";
import { field, newId, problemBox, verdictLine } from "./parts.js";
import { matchedRules } from "./rule_parts.js";
import { t } from "./words.js";

export function makeTryOut({ tool, onTool }) {
  const names = h("datalist", { id: newId("tools") });
  const input = h("input", { type: "text", value: tool, list: names.id, autocomplete: "off", spellcheck: "false", maxlength: "1000" });
  const formBox = h("div");
  const answer = h("div.tryout-answer", { "aria-live": "polite" });
  let form = null;
  let turn = 0;

  const tell = (told, problem) => show(answer, told ? drawAnswer(told) : problem ? problemBox(problem) : h("p.faint", t("tryout.misfit")));
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
      form = argumentForm(found.input_schema, {}, { tool: name }, (...told) => mine === turn && tell(...told));
      show(formBox, h("h3", t("label.arguments")), form.element);
    } catch (problem) {
      if (mine === turn) show(answer, problem.status === 404 ? h("p.faint", t("tryout.no_tool")) : problemBox(problem));
    }
  };
  input.addEventListener("change", choose);
  input.addEventListener("input", (event) => {
    // A choice from the list is complete at once; typed characters are not.
    if (event.inputType === undefined || event.inputType === "insertReplacementText") choose();
  });
  const send = (event) => {
    event.preventDefault();
    form?.reveal();
    if (form) form.check();
    else choose();
  };
  const element = h(
    "section.card.tryout",
    { "aria-labelledby": "tryout-title" },
    h("div.card-head", h("h2", { id: "tryout-title" }, t("tryout.title"))),
    h("form.card-body.tryout-form", { on: { submit: send } }, h("p.faint", t("tryout.about")), field(t("label.tool"), input), names, formBox, answer),
  );
  const load = async () => {
    const { tools } = await get("/tools", { limit: 500 }).catch(() => ({ tools: [] }));
    show(names, tools.map((each) => h("option", { value: each.name }, shortText(each.description))));
    if (tool) await choose();
  };
  return { element, load, check: () => form?.check() };
}

function drawAnswer(told) {
  return [
    h("p.tryout-verdict", verdictLine(told)),
    told.question ? h("p.faint", longText(told.question)) : null,
    h("h3", t("tryout.matched")),
    told.matched.length ? matchedRules(told.matched) : h("p.faint", t("tryout.no_rule")),
  ];
}
