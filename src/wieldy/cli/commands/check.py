"""`wieldy check`: report what each provider's schema rules would drop or change."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import cast

from rich.table import Table
from rich.text import Text

from wieldy.cli import exits, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.cli.sources import Failure, LoadedSources, is_gateway, loaded_tools
from wieldy.core.choices import ProviderFormat
from wieldy.core.errors import DefinitionError
from wieldy.core.schema.result_check import promised_result
from wieldy.wire.checking import Report, report
from wieldy.wire.cost import tool_cost
from wieldy.wire.schema.target import PROVIDERS


def run_check(
    sources: list[str] | None,
    providers: list[str],
    strict: bool,
    as_json: bool,
    offline: bool = False,
) -> int:
    """Print the reports; gives the exit code."""
    if is_gateway(sources):
        room = "wieldy.cli.commands.serve_gateway"
        check_file = import_extra(room, "run_check_gateway", "server")
        return int(check_file(Path(sources[0]), offline, as_json))

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources) as found:
            broken = tell_unusable_schemas(found)
            tools = [tool for tool in found.meant if tool.name not in broken]
            # `report` refuses an unknown name and suggests near ones.
            chosen = cast("list[ProviderFormat]", providers) or PROVIDERS
            reports = [report(tools, each, strict) for each in chosen]
            tokens = {
                each.provider: tool_cost(tools, each.provider, strict).total for each in reports
            }
            if as_json:
                screen.put([_report_data(each, tokens[each.provider]) for each in reports])
            else:
                for each in reports:
                    _show_report(each, tokens[each.provider])
            lost = any(each.lost for each in reports)
            return found.exit_code(exits.FAILED if lost else exits.OK)

    return exits.guarded(work)


def tell_unusable_schemas(found: LoadedSources) -> set[str]:
    """Tell of tools whose own output schema can't be used; returns their names."""
    broken = set()
    for tool in found.meant:
        try:
            promised_result(tool)
        except DefinitionError as error:
            broken.add(tool.name)
            failure = Failure(found.origins.get(tool.name, tool.source), str(error))
            found.failed.append(failure)
            screen.fail(failure)
    return broken


def _report_data(found: Report, tokens: int) -> dict[str, object]:
    return {
        "provider": found.provider,
        "strict": found.strict,
        "lost": found.lost,
        "tokens": tokens,
        "whole": [asdict(change) for change in found.whole],
        "tools": {
            name: [asdict(change) for change in changes] for name, changes in found.tools.items()
        },
    }


def _show_report(found: Report, tokens: int) -> None:
    console = screen.console()
    title = f"{found.provider}{' strict' if found.strict else ''}"
    rows = [(name, change) for name, changes in found.tools.items() for change in changes]
    rows = [*(("", change) for change in found.whole), *rows]
    said = "no differences" if not rows else _count_noun(len(rows), "difference")
    tools = _count_noun(len(found.tools), "tool")
    console.print(Text(f"{title}: {tools}, about {tokens:,} tokens, {said}"))
    if not rows:
        return
    table = Table("tool", "where", "", "what", "why", box=None, padding=(0, 1))
    for name, change in rows:
        mark = Text("lost", style="red") if change.lost else Text("changed", style="yellow")
        what = f"{change.keyword} {change.what}"
        table.add_row(
            _text_cell(name),
            _text_cell(change.path or "arguments"),
            mark,
            _text_cell(what),
            _text_cell(change.why),
        )
    console.print(table)


def _text_cell(text: str) -> Text:
    # Names and paths are untrusted: they are neither markup nor control characters here.
    return Text(screen.line(text))


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
