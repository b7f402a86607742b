"""`wieldy check`: what each provider would not get as the tools say it."""

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wieldy.core.errors import WieldyError
from wieldy.wire.checking import Report, report
from wieldy.wire.cost import cost
from wieldy.wire.target import PROVIDERS

from .source import load_box


def run_check(source: str, providers: list[str], strict: bool, as_json: bool) -> int:
    """Print the reports; gives the exit code."""
    try:
        box = load_box(source)
        tools = list(box)
        reports = [report(tools, each, strict) for each in providers or PROVIDERS]
    except (WieldyError, ValueError) as error:
        Console(stderr=True, highlight=False).print(Text(str(error), style="red"))
        return 2
    tokens = {each.provider: cost(tools, each.provider, strict).total for each in reports}
    if as_json:
        plain = [_plain(each, tokens[each.provider]) for each in reports]
        typer.echo(json.dumps(plain, indent=2, default=str))
    else:
        for each in reports:
            _show(each, tokens[each.provider])
    return 1 if any(each.lost for each in reports) else 0


def _plain(found: Report, tokens: int) -> dict[str, object]:
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


def _show(found: Report, tokens: int) -> None:
    console = Console(highlight=False)
    title = f"{found.provider}{' strict' if found.strict else ''}"
    rows = [(name, change) for name, changes in found.tools.items() for change in changes]
    rows = [*(("", change) for change in found.whole), *rows]
    said = "as the tools say it" if not rows else _count(len(rows), "difference")
    tools = _count(len(found.tools), "tool")
    console.print(Text(f"{title}: {tools}, about {tokens:,} tokens, {said}"))
    if not rows:
        return
    table = Table("tool", "where", "", "what", "why", box=None, padding=(0, 1))
    for name, change in rows:
        mark = Text("lost", style="red") if change.lost else Text("changed", style="yellow")
        what = f"{change.keyword} {change.what}"
        table.add_row(name, change.path or "arguments", mark, what, change.why)
    console.print(table)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
