"""Complete words in the shell: states of calls, providers, tools, calls and sources.

If something goes wrong, there are no completions. A completion must neither print nor fail.
"""

import asyncio
import contextlib
import io
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import typer

from wieldy.core.errors import WieldyError
from wieldy.store.row_values import STATES
from wieldy.toolbox import Toolbox
from wieldy.wire.schema.target import PROVIDERS

from . import environment, screen
from .commands.manual import read_pages
from .sources import Own, load_sources
from .store_choice import StoreChoice

T = TypeVar("T")
_SUFFIXES = (".py", ".json", ".yaml", ".yml")
_SECONDS = 5.0
_RECENT = 500


def call_states(incomplete: str) -> list[str]:
    """The states that a call can have in the ledger."""
    return _fitting_words(STATES, incomplete)


def providers(incomplete: str) -> list[str]:
    """The providers that tools can be described for."""
    return _fitting_words(PROVIDERS, incomplete)


def doc_pages(incomplete: str) -> list[str]:
    """The pages of the documentation."""
    try:
        return _fitting_words((page.name for page in read_pages()), incomplete)
    except WieldyError:
        return []


def tools(context: typer.Context, incomplete: str) -> list[str]:
    """The tools of the sources given so far, or of the default sources."""

    async def names() -> list[str]:
        given = [*(context.params.get("sources") or ())]
        here = [each for each in environment.sources(given) if ".py" in each or ":" in each]
        # A completion starts no server and makes no network request.
        local = [each for each in here if "://" not in each]
        return (await load_sources(local, Own())).box.names

    return _fitting_words(_run_quietly(names, []), incomplete)


def waiting_calls(context: typer.Context, incomplete: str) -> list[str]:
    """The calls that wait for a decision."""

    async def ids() -> list[str]:
        async with _open_store(context) as box:
            return [parked.id for parked in await box.pending()]

    return _fitting_words(_run_quietly(ids, []), incomplete)


def unknown_calls(context: typer.Context, incomplete: str) -> list[str]:
    """The interrupted calls whose result is unknown."""

    async def ids() -> list[str]:
        async with _open_store(context) as box:
            return [entry.call.id for entry in await box.ledger.list(state="unknown")]

    return _fitting_words(_run_quietly(ids, []), incomplete)


def recorded_calls(context: typer.Context, incomplete: str) -> list[str]:
    """The newest recorded calls whose id begins with the text."""

    async def ids() -> list[str]:
        async with _open_store(context) as box:
            return [*await box.ledger.ids(incomplete)]

    return _fitting_words(_run_quietly(ids, []), incomplete)


def recorded_tools(context: typer.Context, incomplete: str) -> list[str]:
    """The tools of the most recent calls."""

    async def names() -> list[str]:
        async with _open_store(context) as box:
            return [entry.call.tool for entry in await box.ledger.list(limit=_RECENT)]

    return _fitting_words(_run_quietly(names, []), incomplete)


def source_files(incomplete: str) -> list[str]:
    """Files that may be sources, and folders that may contain some."""
    folder, start = os.path.split(incomplete)
    try:
        found = sorted(Path(folder or ".").iterdir())
    except OSError:
        return []
    shown = [
        os.path.join(folder, each.name) + ("/" if each.is_dir() else "")
        for each in found
        if each.name.startswith(start) and (each.is_dir() or each.suffix in _SUFFIXES)
    ]
    return [each for each in shown if start.startswith(".") or not Path(each).name.startswith(".")]


def _open_store(context: typer.Context) -> Toolbox:
    named = context.params.get("source") or ()
    return StoreChoice(context.params.get("store"), tuple(named)).read()


def _run_quietly(work: Callable[[], Awaitable[T]], otherwise: T) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work(), _SECONDS)

    # The shell reads the output, and modules that are imported may print.
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return asyncio.run(bounded())
        except Exception:
            return otherwise


def _fitting_words(known: Iterable[str], incomplete: str) -> list[str]:
    unlike = (each for each in dict.fromkeys(known) if each.startswith(incomplete))
    return [each for each in unlike if each == screen.line(each)]
