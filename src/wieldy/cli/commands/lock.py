"""`wieldy lock`, `verify` and `diff`: record definitions, and report what has changed."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from wieldy.cli import environment, exits, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.cli.module import SourceError
from wieldy.cli.sources import Failure, NothingLoaded, is_gateway, loaded_tools
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.errors import LockError
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.lock.definition import Definition
from wieldy.lock.lockfile import LOCK_FILE, Lock, LockChanges
from wieldy.lock.suspicion import Finding, suspicions

_SAME, _CHANGED = exits.OK, exits.FAILED
_STYLES = {"added": "green", "changed": "yellow", "removed": "red", "suspicious": "magenta"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


# With the tools, what could not be read, and the path of the lock.
Work = Callable[[list[Tool], list[Failure], str], int]


def run_lock(sources: list[str] | None, given: str | None, as_json: bool, partial: bool) -> int:
    """Write the lock and report what changes in it; returns the exit code.

    If something can't be read, nothing is written. With `partial`, the tools that could be
    read are locked, and the entries of the others stay.
    """

    def work(tools: list[Tool], failed: list[Failure], path: str) -> int:
        before = _existing_lock(path)
        kept = _entries_of(failed, before, tools)
        new, changes = Lock.of(tools).with_kept(kept.items()), before.compare(tools)
        changes = replace(changes, removed=tuple(c for c in changes.removed if c.name not in kept))
        if changes or not len(before):
            new.write(path)
        said = f"{_count_noun(len(new), 'tool')} locked in {path}"
        if kept:
            said += f"; {len(kept)} of them could not be read and keep their old entries"
        _report_lock(said, path, tools, changes, failed, as_json)
        return exits.PARTLY if failed else _SAME

    return _over_sources(sources, work, given, as_json, partial)


def run_verify(sources: list[str] | None, given: str | None, as_json: bool) -> int:
    """Compare the tools with the lock; gives the exit code."""

    def work(tools: list[Tool], failed: list[Failure], path: str) -> int:
        changes = Lock.read(path).compare(tools)
        same = f"{_count_noun(len(tools), 'tool')}, as locked in {path}"
        differ = f"{_count_noun(len([*changes]), 'tool')} not as locked in {path}"
        _report_lock(differ if changes else same, path, tools, changes, failed, as_json)
        return _CHANGED if changes else _SAME

    return _over_sources(sources, work, given, as_json)


def run_diff(sources: list[str] | None, given: str | None, as_json: bool) -> int:
    """Show line by line what differs from the lock; gives the exit code."""

    def work(tools: list[Tool], failed: list[Failure], path: str) -> int:
        changes = Lock.read(path).compare(tools)
        if as_json:
            plain = [
                {"tool": each.name, "what": each.kind, "diff": each.diff()} for each in changes
            ]
            typer.echo(dump_json(plain, MAX_WRAPPED, indent=2))
        else:
            for change in changes:
                for line in change.diff():
                    _say_line(line, _DIFF_STYLES.get(line[0], ""))
        return _CHANGED if changes else _SAME

    return _over_sources(sources, work, given, as_json, plain=True)


def _over_sources(
    sources: list[str] | None,
    work: Work,
    given: str | None,
    as_json: bool,
    partial: bool = False,
    plain: bool = False,
) -> int:
    """Do the work with all tools of all sources, hidden ones too; returns the exit code.

    With `plain`, failures as JSON are only a list.
    """

    def load(runner: asyncio.Runner) -> int:
        path = given or _find_path(sources)
        try:
            with loaded_tools(runner, sources, locked=False) as found:
                if not found.failed or partial:
                    return work(found.box.all_tools(), found.failed, path)
                failed = found.failed
        except NothingLoaded as error:
            failed = error.failed
            screen.fail(error)
        if as_json:
            told = [failure.to_dict() for failure in failed]
            screen.put(told if plain else {"lock": path, "failed": told})
        # Tools of an unreadable source would look like removed tools.
        raise SourceError("Nothing was compared or locked, because a source could not be read.")

    return exits.guarded(load)


def _find_path(sources: list[str] | None) -> str:
    """The lock file if none is given: the one that a gateway's file names, or `tools.lock`."""
    named = environment.sources(sources)
    if not is_gateway(named):
        return LOCK_FILE
    return str(import_extra("wieldy.cli.gateway", "find_lock", "server")(Path(named[0])))


def _entries_of(failed: list[Failure], before: Lock, tools: list[Tool]) -> dict[str, Definition]:
    """The lock's entries for sources that could not be read, as far as they can be identified.

    The entries of a failed server are found by its name. For any other failed source, every
    entry that belongs to no readable source is assumed to belong to it.
    """
    servers = {f"mcp:{failure.server}" for failure in failed if failure.server is not None}
    read = {tool.source for tool in tools} - {"python"} - servers
    unknown = any(failure.server is None for failure in failed)
    names = {tool.name for tool in tools}
    return {
        name: entry
        for name, entry in before.tools.items()
        if name not in names and (entry.source in servers or (unknown and entry.source not in read))
    }


def _existing_lock(path: str) -> Lock:
    """The existing lock, or an empty one. A damaged lock is an error and is not overwritten."""
    try:
        return Lock.read(path)
    except LockError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return Lock({})
        raise


def _report_lock(
    said: str,
    path: str,
    tools: list[Tool],
    changes: LockChanges,
    failed: list[Failure],
    as_json: bool,
) -> None:
    found = [(tool.name, finding) for tool in tools for finding in suspicions(tool)]
    if as_json:
        told = [failure.to_dict() for failure in failed]
        screen.put({**_lock_data(path, tools, changes, found), "failed": told})
        return
    _say_line(said)
    for change in changes:
        fields = ", ".join(each.replace("_", " ") for each in change.fields)
        _show_mark(change.kind, change.name, fields)
    for name, finding in found:
        _show_mark("suspicious", name, f"{finding.place}: {finding.kind}: {finding.passage}")


def _lock_data(
    path: str, tools: list[Tool], changes: LockChanges, found: list[tuple[str, Finding]]
) -> dict[str, Any]:
    return {
        "lock": path,
        "tools": len(tools),
        "added": [change.name for change in changes.added],
        "removed": [change.name for change in changes.removed],
        "changed": {change.name: change.fields for change in changes.changed},
        "suspicious": [{"tool": name, **asdict(finding)} for name, finding in found],
    }


def _show_mark(kind: str, name: str, more: str) -> None:
    text = Text.assemble("  ", (f"{kind:10}", _STYLES[kind]), "  ", visible_line(name, 80))
    screen.console().print(text.append(f"  {more}" if more else ""), soft_wrap=True)


def _say_line(text: str, style: str = "") -> None:
    screen.console().print(Text(text, style=style), soft_wrap=True)


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
