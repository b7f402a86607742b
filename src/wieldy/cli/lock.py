"""`wieldy lock`, `verify` and `diff`: what was looked at, and what has changed since."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from wieldy.core.errors import LockError
from wieldy.core.tool import Tool
from wieldy.core.visible import visible
from wieldy.mcp.lock import Changes, Lock
from wieldy.mcp.suspicion import Finding, suspicions

from . import exits
from .module import SourceError
from .source import loaded

_SAME, _CHANGED = exits.OK, exits.FAILED
_STYLES = {"added": "green", "changed": "yellow", "removed": "red", "suspicious": "magenta"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def run_lock(sources: list[str] | None, path: str, as_json: bool) -> int:
    """Write the lock and say what it changes; gives the exit code."""

    def work(tools: list[Tool]) -> int:
        new, before = Lock.of(tools), _before(path)
        changes = before.compare(tools)
        if changes or not len(before):
            new.write(path)
        said = f"{_count(len(new), 'tool')} locked in {path}"
        _report(said, path, tools, changes, as_json)
        return _SAME

    return _over(sources, work)


def run_verify(sources: list[str] | None, path: str, as_json: bool) -> int:
    """Compare the tools with the lock; gives the exit code."""

    def work(tools: list[Tool]) -> int:
        changes = Lock.read(path).compare(tools)
        same = f"{_count(len(tools), 'tool')}, as locked in {path}"
        differ = f"{_count(len([*changes]), 'tool')} not as locked in {path}"
        _report(differ if changes else same, path, tools, changes, as_json)
        return _CHANGED if changes else _SAME

    return _over(sources, work)


def run_diff(sources: list[str] | None, path: str, as_json: bool) -> int:
    """Show line by line what differs from the lock; gives the exit code."""

    def work(tools: list[Tool]) -> int:
        changes = Lock.read(path).compare(tools)
        if as_json:
            plain = [
                {"tool": each.name, "what": each.kind, "diff": each.diff()} for each in changes
            ]
            typer.echo(json.dumps(plain, indent=2))
        else:
            for change in changes:
                for line in change.diff():
                    _say(line, _DIFF_STYLES.get(line[0], ""))
        return _CHANGED if changes else _SAME

    return _over(sources, work)


def _over(sources: list[str] | None, work: Callable[[list[Tool]], int]) -> int:
    """Do something with all tools of all sources, offered or not; gives the exit code."""

    def load(runner: asyncio.Runner) -> int:
        with loaded(runner, sources) as found:
            if found.exit_code(exits.OK) != exits.OK:
                # Its tools would be missing, which looks like tools that are gone.
                raise SourceError("Nothing was compared or locked, because a source failed.")
            return work(found.box.all_tools())

    return exits.guarded(load)


def _before(path: str) -> Lock:
    """The lock that is there; one that can't be relied upon is not written over."""
    try:
        return Lock.read(path)
    except LockError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return Lock({})
        raise


def _report(said: str, path: str, tools: list[Tool], changes: Changes, as_json: bool) -> None:
    found = [(tool.name, finding) for tool in tools for finding in suspicions(tool)]
    if as_json:
        typer.echo(json.dumps(_plain(path, tools, changes, found), indent=2))
        return
    _say(said)
    for change in changes:
        fields = ", ".join(each.replace("_", " ") for each in change.fields)
        _mark(change.kind, change.name, fields)
    for name, finding in found:
        _mark("suspicious", name, f"{finding.place}: {finding.kind}: {finding.passage}")


def _plain(
    path: str, tools: list[Tool], changes: Changes, found: list[tuple[str, Finding]]
) -> dict[str, Any]:
    return {
        "lock": path,
        "tools": len(tools),
        "added": [change.name for change in changes.added],
        "removed": [change.name for change in changes.removed],
        "changed": {change.name: change.fields for change in changes.changed},
        "suspicious": [{"tool": name, **asdict(finding)} for name, finding in found],
    }


def _mark(kind: str, name: str, more: str) -> None:
    text = Text.assemble("  ", (f"{kind:10}", _STYLES[kind]), "  ", visible(name, 80))
    Console(highlight=False).print(text.append(f"  {more}" if more else ""), soft_wrap=True)


def _say(text: str, style: str = "") -> None:
    Console(highlight=False).print(Text(text, style=style), soft_wrap=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
