"""Make a toolbox and its views as a gateway's file says."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wieldy.core.errors import ServerUnavailable, WieldyError
from wieldy.core.limits.limits import Limits
from wieldy.core.permission.rules import Rule
from wieldy.lock.lockfile import LOCK_FILE
from wieldy.server.config.caller_misfits import filled_values
from wieldy.server.config.gateway_file import GatewayFile, ServerTable, read_seconds
from wieldy.server.config.mistakes import FileMistakes, place_mistakes, read_gateway, read_rule
from wieldy.store.retention import Retention
from wieldy.toolbox import Toolbox

from . import screen
from .gateway_offer import add_own_tools
from .module import SourceError
from .sources import Failure, LoadedSources, Own, is_servers_file, load_sources

if TYPE_CHECKING:
    from wieldy.server.caller_sources import CallerSources

_SQLITE = "sqlite:///"
_NOT_ISOLATED = "is for Python and OpenAPI sources"
# The keys of an `mcpServers` entry; the other keys of a server are ours.
_ENTRY = ("command", "args", "env", "env_file", "cwd", "url", "type", "headers", "disabled")


async def load_gateway(
    file: GatewayFile, folder: Path, people: "CallerSources | None" = None, *, connect: bool = True
) -> LoadedSources:
    """The tools of a gateway, in a toolbox with its store and mode, still without its rules.

    Paths in the file are relative to its folder. A server that can't be reached is reported, and
    the others are served. Without `connect`, its servers are still to be connected.
    """
    box = make_gateway_box(file, folder)
    paths = [_place_source(source.path, folder) for source in file.sources]
    try:
        found = await load_sources(paths, Own(), base=box)
        _isolate_sources(file, paths, found)
        add_own_tools(file, folder, box)
        if not connect:
            return found
        # All at once: one that does not answer holds up no other.
        async with asyncio.TaskGroup() as connecting:
            for name in file.servers:
                connecting.create_task(add_server(found, name, file, folder, people))
    except BaseException as error:
        await box.close()
        if isinstance(error, BaseExceptionGroup):
            raise error.exceptions[0] from None
        raise
    return found


def find_source_mistakes(path: Path, file: GatewayFile) -> FileMistakes | None:
    """The sources with a place for functions that run in processes of their servers already."""
    places = {
        ("sources", number, "isolation"): _place_source(each.path, path.parent)
        for number, each in enumerate(file.sources)
        if each.isolation is not None
    }
    return place_mistakes(
        path, [(key, f"{_NOT_ISOLATED}.") for key, at in places.items() if is_servers_file(at)]
    )


def _isolate_sources(file: GatewayFile, paths: list[str], found: LoadedSources) -> None:
    """Have the functions of sources run where the file says."""
    places = {path: each.isolation for path, each in zip(paths, file.sources, strict=True)}
    for name, source in found.origins.items():
        place, tool = places.get(source), found.box.get(name)
        if place is None or tool is None:
            continue
        if tool.source.startswith("mcp:"):
            raise SourceError(f"{source}: isolation {_NOT_ISOLATED}.")
        try:
            found.toolbox.add(tool, isolation=place, on_conflict="override")
        except WieldyError as error:
            raise SourceError(f"{source}: {error}") from error


def find_store(path: Path) -> str:
    """The address of the store that a gateway's file names."""
    return _place_store(read_gateway(path).store, path.parent.absolute())


def find_lock(path: Path) -> str:
    """The lock file that a gateway's file names, or the one that it may name."""
    return str(path.parent / (read_gateway(path).lock or LOCK_FILE))


def make_gateway_box(file: GatewayFile, folder: Path) -> Toolbox:
    """The toolbox of a gateway, still without tools."""
    bounds = file.retention.model_dump(exclude_unset=True)
    return Toolbox(
        store=_place_store(file.store, folder),
        retention=Retention(**bounds) if bounds else None,
        lock=None if file.lock is None else folder / file.lock,
        on_change=file.on_change,
        permission_mode=file.mode,
        approval_ttl=None if file.approval_ttl is None else read_seconds(file.approval_ttl),
        max_result=file.max_result,
    )


def add_rules(file: GatewayFile, box: Toolbox | None) -> list[Rule]:
    """The rules of the file, added to a box where one is given."""
    rules = list(map(read_rule, file.rules))
    if box is not None:
        box.rules.replace([*box.rules, *rules])
    return rules


async def add_server(
    found: LoadedSources,
    name: str,
    file: GatewayFile,
    folder: Path,
    people: "CallerSources | None" = None,
    again: bool = False,
) -> bool:
    """Connect to a server and take in its tools; one that can't be reached is reported.

    Names and order are as in the file, whichever server answers first.

    Args:
        found: The tools, in their toolbox.
        name: The name of the server.
        file: What the file says, about this server and about others.
        folder: The folder of the file.
        people: The servers that everybody reaches as themselves.
        again: Whether this is another try, of which it was said before that it failed.

    Returns:
        Whether it is connected.
    """
    server, box = file.servers[name], found.toolbox
    entry = _make_entry(server, folder)
    try:
        # The SDK is an extra, and slow to import.
        from wieldy.mcp import Patience, pass_to_client  # noqa: PLC0415

        await box.add_mcp(
            _make_source(name, server, entry, people),
            name,
            tags=server.tags,
            allow=server.allow,
            deny=server.deny,
            limits=_server_limits(server),
            trusted=server.trusted,
            permission=server.permission,
            prefix=server.prefix,
            on_sample=pass_to_client,
            patience=Patience(max_message=server.max_message),
        )
    except (ImportError, WieldyError) as error:
        failure = Failure(f"servers.{name}", str(error), name)
        if isinstance(error, ServerUnavailable):
            box.mcp.note_failure(name, error, list(file.servers))
        if not again:
            found.failed.append(failure)
            screen.fail(failure)
        return False
    found.failed = [each for each in found.failed if each.source != f"servers.{name}"]
    if name in box.mcp:
        box.mcp.put_in_place(name, list(file.servers))
    for each in file.servers:
        if each in box.mcp:
            names = [tool.name for tool in box.mcp[each].tools]
            found.origins |= dict.fromkeys(names, f"servers.{each}")
            found.given.update(names)
    return True


def _server_limits(server: ServerTable) -> Limits | None:
    """The limits of a server's tools; None if nothing is said of them."""
    # The SDK is an extra, and slow to import.
    from wieldy.mcp.client.tool_sync import DEFAULT_LIMITS  # noqa: PLC0415

    said = {"timeout": server.timeout, "max_result": server.max_result}
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return replace(DEFAULT_LIMITS, **given) if given else None


def check_server(name: str, server: ServerTable, folder: Path) -> None:
    """Raise `InvalidSource` if an entry lacks something that this machine should have.

    That is a variable of the environment, or a file with variables. Nothing is connected.
    """
    # The SDK is an extra, and slow to import.
    from wieldy.mcp.client.config import read_entries  # noqa: PLC0415

    source = _make_source(name, server, _make_entry(server, folder), None)
    if isinstance(source, dict):
        read_entries(source, name)[name]()


def _make_entry(server: ServerTable, folder: Path) -> dict[str, Any]:
    """A server as in an `mcpServers` file, with paths that are right in any folder."""
    entry: dict[str, Any] = server.model_dump(
        include=set(_ENTRY), exclude_unset=True, exclude_none=True, by_alias=True
    )
    if server.command is not None:
        # A server that is a process starts in the folder of the file, unless it says another.
        entry["cwd"] = _place_path(server.cwd or ".", folder)
    if server.env_file is not None:
        entry["envFile"] = _place_path(server.env_file, folder)
    return entry


def _place_path(path: str, folder: Path) -> str:
    """A path as it is found from any folder; what begins with a variable or ~ says itself where."""
    return path if path.startswith(("$", "~")) else str(folder / path)


def _make_source(
    name: str, server: ServerTable, entry: dict[str, Any], people: "CallerSources | None"
) -> Any:
    """What `add_mcp` takes: the entry, or a source that differs from caller to caller."""
    if server.disabled or not any(filled_values(server).values()):
        return {"mcpServers": {name: entry}}
    # The SDK is an extra, and slow to import.
    from wieldy.server.caller_sources import CallerSources  # noqa: PLC0415

    return (people or CallerSources({})).add(name, server, entry)


def _place_source(path: str, folder: Path) -> str:
    """A source as it is found from any folder."""
    if "://" in path:
        return path
    file, colon, name = path.partition(":")
    return f"{folder / file}{colon}{name}" if (folder / file).exists() else path


def _place_store(url: str, folder: Path) -> str:
    """The address of a store, with a SQLite file that is relative to the folder."""
    if not url.startswith(_SQLITE):
        return url
    return f"{_SQLITE}{(folder / url.removeprefix(_SQLITE)).absolute()}"
