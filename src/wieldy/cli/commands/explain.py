"""`wieldy explain`: what would become of a call, and why."""

import asyncio
from dataclasses import dataclass

from wieldy.cli import exits, screen
from wieldy.cli.argument_options import read_arguments
from wieldy.cli.sources import Own, loaded_tools
from wieldy.core.call import Scope
from wieldy.core.permission.explanation import Explanation

from .listing import the_tool

_WORDS = {
    "run": "It would run.",
    "ask": "A person would be asked.",
    "deny": "It would be denied.",
    "dry-run": "It would not run: what it would do is told.",
}


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The call that is asked about, and on whose behalf it would be made."""

    name: str
    pairs: tuple[str, ...] = ()
    agent: str | None = None
    session: str | None = None
    caller: str | None = None


def run_explain(asked: AskedCall, sources: list[str] | None, own: Own, as_json: bool) -> int:
    """Print what would become of a call; nothing is run. Gives the exit code."""

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources, own) as found:
            tool = the_tool(found, asked.name)
            arguments = read_arguments(tool.input_schema, asked.pairs)
            scope = Scope(asked.agent, asked.session, caller=asked.caller)
            told = runner.run(found.meant.explain_permission(tool.name, arguments, scope=scope))
            if as_json:
                screen.put({"tool": tool.name, **told.to_dict()})
            else:
                _show_explanation(told)
            return found.exit_code(exits.OK)

    return exits.guarded(work)


def _show_explanation(told: Explanation) -> None:
    screen.show(_WORDS[told.decision])
    screen.facts(
        (
            ("because", told.because),
            ("matched", ", ".join(map(str, told.matched)) or None),
            ("question", told.question),
            ("limits", "\n".join(map(str, told.limits)) or None),
        )
    )
