// A form for the arguments of a call. The engine checks them as one types; nothing is run.
import { post } from "./api.js";
import { calmly } from "./page_parts.js";
import { schemaForm } from "./schema_form.js";

const DELAY = 300;

/**
 * A form as `schemaForm` makes it. `about` names the tool, and the call if it waits. `tell` gets what would
 * become of the call, null while the arguments don't fit, or a problem. `check` checks now, and gives false if
 * the arguments don't fit; an answer that comes late is left out.
 */
export function argumentForm(schema, value, about, tell) {
  let asked = 0;
  const ask = async (mine) => {
    const body = { ...about, arguments: form.read() };
    const { problems } = await post("/check-arguments", body);
    if (mine !== asked) return true;
    form.setProblems(problems);
    const told = tell && !problems.length ? await post("/explain", body) : null;
    if (mine === asked) tell?.(told);
    return !problems.length;
  };
  const check = async () => {
    const mine = ++asked;
    try {
      return await ask(mine);
    } catch (problem) {
      if (mine !== asked) return true;
      // What is typed may be no value yet.
      if (problem.status === undefined) form.setProblems([problem]);
      else if (tell) tell(null, problem);
      else form.setProblems(readProblems(problem));
      return problem.status !== undefined;
    }
  };
  const form = schemaForm(schema, value, { onChange: calmly(DELAY, check) });
  if (tell) check();
  return { ...form, check };
}

export function readProblems(problem) {
  return problem.details?.problems || [{ path: "", message: problem.message }];
}
