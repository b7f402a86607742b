"""`wieldy serve`: serve the tools to MCP clients over HTTP or stdio."""

import asyncio
import ipaddress
import shlex
import shutil
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from wieldy.cli import environment, exits, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.cli.sources import LoadedSources, Own, is_gateway, loaded_tools
from wieldy.core.bounded_json import dump_json
from wieldy.core.errors import WieldyError
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox
from wieldy.tools.tool_search import add_search_tools

from .terminal_people import TerminalPeople

_NAME = "wieldy"


class ServeError(WieldyError):
    """The tools can't be served with these options."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address to listen on, the tokens of the callers, and the limit of open sessions."""

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: tuple[str, ...] = ()
    max_sessions: int = 1000
    stored_tokens: bool = False


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """That clients see a few tools and find the others: within which budget, and which always."""

    budget: int
    always: tuple[str, ...] = ()

    def add_to(self, found: LoadedSources) -> None:
        """Add the search tools, unless the source has done so."""
        if not isinstance(found.box, Toolbox):
            raise ServeError("--search needs a toolbox, and this source is a view.")
        if not found.box.has_session_lists:
            add_search_tools(found.box, self.budget, self.always)

    @property
    def words(self) -> list[str]:
        """The arguments with which another process does the same."""
        always = [word for name in self.always for word in ("--always", name)]
        return ["--search", "--budget", str(self.budget), *always]


@dataclass(frozen=True, slots=True)
class CodeMode:
    """That clients see one tool, which runs programs, and tools that are no functions of them."""

    budget: int
    always: tuple[str, ...] = ()

    def add_to(self, found: LoadedSources) -> None:
        """Add the tool, and offer nothing but it and what is always shown."""
        if not isinstance(found.box, Toolbox):
            raise ServeError("--code-mode needs a toolbox, and this source is a view.")
        offer = found.offer
        add_code_mode = import_extra("wieldy.tools.code_mode", "add_code_mode", "code-mode")
        functions = offer.view(where=lambda tool, scope: not self._is_always_shown(tool))
        try:
            name = add_code_mode(functions, budget=self.budget).name
        except ImportError as error:
            raise ServeError(str(error)) from error
        found.offer = offer.view(
            where=lambda tool, scope: tool.name == name or self._is_always_shown(tool)
        )

    def _is_always_shown(self, tool: Tool) -> bool:
        return any(fnmatchcase(tool.name, pattern) for pattern in self.always)

    @property
    def words(self) -> list[str]:
        """The arguments with which another process does the same."""
        always = [word for name in self.always for word in ("--always", name)]
        return ["--code-mode", "--budget", str(self.budget), *always]


@dataclass(frozen=True, slots=True)
class OfferChoice:
    """How clients get at the tools, as it was asked for."""

    search: bool = False
    code_mode: bool = False
    budget: int = 10_000
    always: tuple[str, ...] = ()

    def apply(self, found: LoadedSources) -> list[str]:
        """Offer the tools that way; returns the arguments with which another process does so."""
        if self.search and self.code_mode:
            raise ServeError(
                "Choose --search or --code-mode: in code mode, programs find functions."
            )
        if not self.search and not self.code_mode:
            return []
        way = (CodeMode if self.code_mode else ToolSearch)(self.budget, self.always)
        way.add_to(found)
        return way.words


def run_serve(
    sources: list[str] | None,
    own: Own,
    place: ListenAddress | None,
    isolated: bool = False,
    choice: OfferChoice | None = None,
) -> int:
    """Serve the tools at an address, or over stdin and stdout if it is None."""
    if is_gateway(sources):
        asked = (own, place, isolated, choice or OfferChoice())
        if asked != (Own(), ListenAddress(), False, OfferChoice()):
            screen.fail(f"{sources[0]} says itself how it is served. Write these options there.")
            return exits.USAGE
        gateway = import_extra("wieldy.cli.commands.serve_gateway", "run_gateway", "server")
        return int(gateway(Path(sources[0])))

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources, own) as found:
            if isolated:
                _use_processes(found)
            more = [] if choice is None else choice.apply(found)
            if place is None:
                serve = import_extra("wieldy.mcp", "serve", "mcp")
                runner.run(keep_runs(found, serve(found.box, view=found.offer)))
            else:
                words = _list_words(found, own) + ["--isolation", "process"] * isolated
                _listen(runner, found, place, words + more)
            return found.exit_code(exits.OK)

    return exits.guarded(work)


async def keep_runs(found: LoadedSources, serving: Coroutine[Any, Any, None]) -> None:
    """Serve, and go on with runs of the served agents that others have decided on."""
    async with AsyncExitStack() as stack:
        for agent in found.agents:
            if agent.box.recorded:
                await stack.enter_async_context(agent.keep_runs(_say_line).keeping())
        await serving


def _say_line(text: str) -> None:
    screen.say(screen.line(text, 500))


def _use_processes(found: LoadedSources) -> None:
    """Have the functions of Python sources run in processes."""
    box = found.toolbox
    for tool in box.all_tools():
        if tool.source == "python" and tool.limits.isolation != "process":
            box.add(tool, isolation="process", on_conflict="override")


def _listen(
    runner: asyncio.Runner, found: LoadedSources, place: ListenAddress, words: list[str]
) -> None:
    tokens = environment.tokens(list(place.tokens))
    guarded = bool(tokens) or place.stored_tokens
    if not guarded and not is_local_host(place.host):
        raise ServeError(
            f"Other machines can reach the tools on {place.host}, so every caller needs a token. "
            "Use --stored-tokens and make them with `wieldy token make NAME`, or give them with "
            "--token NAME=TOKEN or the variable WIELDY_TOKENS."
        )
    if place.stored_tokens and not found.kept:
        raise ServeError(
            "--stored-tokens needs a store: name it with --store, or give it to the toolbox of "
            "the source."
        )

    people = TerminalPeople(found.toolbox, guarded)

    def ready(url: str) -> None:
        explain_serving(found, url, people, words)

    run = import_extra("wieldy.server", "run", "server")
    serving = run(
        found.box,
        view=found.offer,
        agents=found.agents,
        host=place.host,
        port=place.port,
        tokens=tokens or None,
        ready=ready,
        max_sessions=place.max_sessions,
        stored_tokens=place.stored_tokens,
        deciders=_find_deciders(found, people),
    )
    try:
        runner.run(keep_runs(found, people.watching(serving)))
    except (OSError, OverflowError) as error:
        raise ServeError(
            f"Can't listen on {place.host} port {place.port}: {error}. "
            "Choose another port with --port."
        ) from error


def _find_deciders(found: LoadedSources, people: TerminalPeople) -> list[Any]:
    """Who decides where callers need no token: the person here, and people of the store."""
    if people.guarded or not found.kept:
        return people.deciders
    kept = import_extra("wieldy.mcp.serving.callers", "KeptTokens", "server")
    return [*people.deciders, kept(found.toolbox.store)]


def is_local_host(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def explain_serving(
    found: LoadedSources, url: str, people: TerminalPeople, words: list[str] | None
) -> None:
    """Print where the tools are, how to connect a client, and what to try.

    `words` are the arguments with which a client can start the server itself, if it can.
    """
    server: dict[str, Any] = {"url": url}
    if people.guarded:
        server["headers"] = {"Authorization": "Bearer TOKEN"}
    names = found.offer.names
    lines = [
        f"{len(names)} tools at {url}: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}",
        *people.explain_console(url.removesuffix("/mcp")),
        "",
        "Connect a client (Cursor, VS Code, Claude Code and others) with:",
        dump_json({"mcpServers": {_NAME: server}}, indent=2),
        "",
        *_explain_start(words),
        "List the tools with the MCP Inspector:",
        f"  npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list",
        "",
        "Try, in another terminal:",
        *_list_trials(found),
        "",
        "Press Ctrl-C to stop.",
    ]
    screen.say("\n".join(lines))


def _explain_start(words: list[str] | None) -> list[str]:
    if words is None:
        return []
    started = dump_json({"mcpServers": {_NAME: _client_command(words)}}, indent=2)
    return ["Claude Desktop starts the server itself:", started, ""]


def _client_command(words: list[str]) -> dict[str, Any]:
    # The client starts the program in another folder, so its path has to be absolute.
    program = Path(shutil.which(_NAME) or sys.argv[0]).absolute()
    return {"command": str(program), "args": ["serve", *words, "--stdio"]}


def _list_words(found: LoadedSources, own: Own) -> list[str]:
    """The arguments with which another process serves the same sources in the same way."""
    words = [_absolute_source(each) for each in found.sources]
    if own.lock is not None:
        words += ["--lock", str(Path(own.lock).absolute())]
        words += [] if own.on_change is None else ["--on-change", own.on_change]
    store = own.store if not found.made else own.store or environment.default_store()
    return words if store is None else [*words, "--store", _absolute_store(store)]


def _absolute_source(source: str) -> str:
    file, colon, name = source.partition(":")
    return f"{Path(file).resolve()}{colon}{name}" if Path(file).exists() else source


def _absolute_store(url: str) -> str:
    """The address as it works from any folder. A server's may hold a password and is hidden."""
    file = url.removeprefix("sqlite:///")
    return "URL" if file == url else f"sqlite:///{Path(file).absolute()}"


def _list_trials(found: LoadedSources) -> list[str]:
    # If the command is not on the PATH, the user has to type what started this process.
    typed = _NAME if shutil.which(_NAME) else shlex.quote(sys.argv[0])
    if not found.kept:
        return [f"  {typed} list SOURCE", f"  {typed} call NAME SOURCE --arg name=value"]
    address = found.toolbox.store.address
    # The other terminal may be in another folder, so the path has to be absolute.
    reachable = _absolute_store(address) if address.startswith("sqlite:") else address
    store = f" --store {shlex.quote(reachable)}"
    return [
        f"  {typed} log --follow{store}      every call as it is made",
        f"  {typed} pending{store}           calls that wait for you",
        f"  {typed} approve ID{store}        approve one of them",
    ]
