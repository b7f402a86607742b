"""Read a gateway's file, and tell every mistake in it with its line and what to do."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from wieldy.core.bounded_json import NestedTooDeep, bound_reader, dump_json
from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names
from wieldy.core.permission.condition_fit import check_conditions
from wieldy.core.permission.rules import Rule, Verdict, make_rule
from wieldy.core.secrets.credential import is_credential
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line

from .address_misfits import find_bad_addresses
from .caller_misfits import find_caller_misfits
from .file_limits import NAMELESS, find_limit_misfits
from .gateway_file import NO_NUL, FileTable, GatewayFile, RuleTable
from .key_lines import KeyPath, find_lines
from .webhook_tables import find_bad_webhooks

_MAX_SIZE = 1024 * 1024
_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_SHORT = 80
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Pydantic adds these to the path of a value with several types, or of a key.
_NO_KEYS = ("float", "str", "[key]")
# The tables on which it depends what can be said of a table. The file itself has no name.
_NEEDS = {
    "": ("servers", "sources"),
    "access": ("views",),
    "callers": ("access", "views"),
    "limits": ("access",),
    "listen": ("access",),
    "servers": ("access", "callers"),
    "code_mode": ("search",),
    "views": ("skills",),
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file.

    Attributes:
        line: The line, counted from 1.
        key: The key, as it would be written with dots.
        message: What is wrong, and what to do.
    """

    line: int
    key: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Convert it for programs.

        Returns:
            Plain JSON.
        """
        return {"line": self.line, "key": self.key, "message": self.message}


class FileMistakes(WieldyError, ValueError):
    """A gateway's file can't be used.

    Attributes:
        path: The file.
        mistakes: What is wrong with it, in the order of the lines.
    """

    def __init__(self, path: Path, mistakes: Sequence[Mistake]) -> None:
        lines = (f"{path}:{each.line}: {each.key}: {each.message}" for each in mistakes)
        super().__init__("\n".join(lines))
        self.path = path
        self.mistakes = list(mistakes)


def read_gateway(path: Path) -> GatewayFile:
    """Read and check a gateway's file, without starting anything.

    Args:
        path: The file.

    Returns:
        What it says.

    Raises:
        FileMistakes: The file can't be read, or something in it is wrong.
    """
    try:
        if path.stat().st_size > _MAX_SIZE:
            raise ValueError(f"it is larger than {_MAX_SIZE:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise FileMistakes(path, [Mistake(1, "the file", f"can't be read: {error}")]) from None
    found = check_text(text)
    if isinstance(found, GatewayFile):
        return found
    raise FileMistakes(path, found)


def check_text(text: str) -> GatewayFile | list[Mistake]:
    """What the text of a file says, or every mistake in it by line."""
    try:
        data = bound_reader(tomllib.loads, text)
        lines = find_lines(text)
    except tomllib.TOMLDecodeError as error:
        return [_read_syntax_error(str(error))]
    except NestedTooDeep as error:
        return [Mistake(1, "the file", f"is {error}")]
    try:
        read = GatewayFile.model_validate(data)
    except ValidationError as error:
        faults = error.errors()
        found = [_describe(each, lines) for each in faults]
        return _sort_mistakes([*found, *_find_more(data, faults, lines)])
    return _sort_mistakes(_place_misfits(_find_misfits(read), lines)) or read


def find_rule_mistakes(path: Path, file: GatewayFile, tools: Iterable[Tool]) -> FileMistakes | None:
    """The conditions of rules that can't meet the arguments of these tools; None if all can."""
    found: list[tuple[KeyPath, str]] = []
    listed = list(tools)
    for number, table in enumerate(file.rules):
        try:
            check_conditions(read_rule(table), listed)
        except ValueError as error:
            found.append((("rules", number, "where"), f"{error}."))
    return place_mistakes(path, found)


def place_mistakes(path: Path, found: Sequence[tuple[KeyPath, str]]) -> FileMistakes | None:
    """What was found wrong with keys of a file that was read, with its lines; None if nothing."""
    if not found:
        return None
    lines = find_lines(path.read_text(encoding="utf-8-sig"))
    return FileMistakes(path, _sort_mistakes(_place_misfits(found, lines)))


def read_rule(table: RuleTable) -> Rule:
    """The rule that a table of the file says."""
    said = {"verdict", "tools", "where", "reason"}
    options: Any = table.model_dump(exclude_none=True, exclude=said)
    where: Any = table.where
    return make_rule(Verdict(table.verdict), table.tools, where, table.reason, options)


def write_schema() -> str:
    """The JSON Schema of the file, which editors use to complete and check it."""
    schema = GatewayFile.model_json_schema(by_alias=True)
    return dump_json(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2
    )


def _read_syntax_error(message: str) -> Mistake:
    found = _LINE.search(message)
    line = 1 if found is None else int(found[1])
    return Mistake(line, "the file", f"is not TOML: {_LINE.sub('', message).strip()}.")


def _sort_mistakes(mistakes: list[Mistake]) -> list[Mistake]:
    return sorted(mistakes, key=lambda each: (each.line, each.key))


def _describe(error: Any, lines: Mapping[KeyPath, int]) -> Mistake:
    """A mistake that pydantic found."""
    path = tuple(error["loc"])
    if path not in lines and path[-1] in _NO_KEYS:
        path = path[:-1]
    message = str(error["msg"]).removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            known = _known_keys(path[:-1])
            near = find_near_names(str(path[-1]), known)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys are {', '.join(known)}."
            message = f"there is no such key. {hint}"
        case "missing":
            message = "is missing."
        case "string_pattern_mismatch" if error["ctx"]["pattern"] == NO_NUL:
            message = "can't have the character NUL in it."
        case _:
            # A credential is not repeated, whatever is wrong with it.
            given = "" if _holds_credential(path) else f", not {_shorten(error['input'])}"
            message = f"{message[:1].lower()}{message[1:]}{given}."
    return Mistake(_find_line(path, lines), _write_path(path), message)


def _holds_credential(path: KeyPath) -> bool:
    return any(isinstance(step, str) and is_credential(step) for step in path)


def _known_keys(path: KeyPath) -> list[str]:
    """The keys of the table at a path."""
    table: type[FileTable] | None = GatewayFile
    # A name in a table of tables, or a place in an array, leads to the same type.
    is_name = False
    for step in path:
        if is_name or table is None:
            is_name = False
            continue
        fields = table.model_fields.items()
        field = next((each for name, each in fields if step in (name, each.alias)), None)
        table = None if field is None else _inner_table(field.annotation)
        is_name = field is not None and get_origin(field.annotation) in (dict, list)
    if table is None:
        return []
    return sorted(field.alias or name for name, field in table.model_fields.items())


def _inner_table(annotation: Any) -> type[FileTable] | None:
    """The table in a field's type, also if it is one of several, in a list, or named."""
    if isinstance(annotation, type) and issubclass(annotation, FileTable):
        return annotation
    inner = (_inner_table(each) for each in get_args(annotation))
    return next((each for each in inner if each is not None), None)


def _find_more(
    data: dict[str, Any], faults: Sequence[Any], lines: Mapping[KeyPath, int]
) -> list[Mistake]:
    """Find what does not fit beside faults, as if the faulty keys were not there."""
    wrong = {str(each["loc"][0]) for each in faults}
    for each in faults:
        _leave_out(data, each["loc"][:-1] if each["type"] == "missing" else each["loc"])
    try:
        read = GatewayFile.model_validate(data)
    except ValidationError:
        return []
    # A mistake elsewhere may change what this table means, so only certain misfits are reported.
    own = [
        (path, said)
        for path, said in _find_misfits(read)
        if wrong.isdisjoint(_NEEDS.get(str(path[0]) if path else "", ()))
        and not any(_is_around(path, each["loc"]) for each in faults)
    ]
    return _place_misfits(own, lines)


def _is_around(table: KeyPath, path: KeyPath) -> bool:
    return bool(table) and path[: len(table)] == table


def _leave_out(data: Any, path: KeyPath) -> None:
    """Take a key out of a table; of an array with a fault nothing is kept."""
    for number, step in enumerate(path):
        inner = data.get(step) if isinstance(data, dict) else None
        if number == len(path) - 1 or not isinstance(inner, dict):
            data.pop(step, None)
            return
        data = inner


def _place_misfits(
    found: Sequence[tuple[KeyPath, str]], lines: Mapping[KeyPath, int]
) -> list[Mistake]:
    return [Mistake(_find_line(path, lines), _write_path(path), said) for path, said in found]


def _find_misfits(read: GatewayFile) -> list[tuple[KeyPath, str]]:
    """Find settings that are right by themselves and do not fit the rest, or never work."""
    found: list[tuple[KeyPath, str]] = []
    if not read.servers and not read.sources:
        found.append(
            ((), "has no [servers.NAME] and no [[sources]], so there is nothing to serve.")
        )
    if read.lock is None and "on_change" in read.model_fields_set:
        found.append((("on_change",), "needs a lock. Name the lock file with `lock`."))
    for name, server in read.servers.items():
        if (server.command is None) == (server.url is None):
            found.append((("servers", name), "needs a command or a url, and only one of them."))
    for number, rule in enumerate(read.rules):
        message = _check_rule(rule)
        if message is not None:
            found.append((("rules", number), message))
    found += _find_lost_views(read)
    found += _find_offer_misfits(read)
    found += _find_nameless_callers(read)
    found += find_caller_misfits(read)
    found += find_limit_misfits(read)
    found += find_bad_webhooks(read.webhooks)
    found += find_bad_addresses(read)
    return found


def _find_offer_misfits(read: GatewayFile) -> list[tuple[KeyPath, str]]:
    """Ways to get at tools that exclude each other, or that lack a table."""
    found: list[tuple[KeyPath, str]] = []
    either = "Choose search or code mode: in code mode, programs find functions."
    if read.search is not None and read.code_mode is not None:
        found.append((("code_mode",), either))
    for name, view in read.views.items():
        if view.code_mode and view.search:
            found.append((("views", name, "code_mode"), either))
        if view.skills and read.skills is None:
            found.append(
                (("views", name, "skills"), "needs [skills] with the folder of the skills.")
            )
    return found


def _find_lost_views(read: GatewayFile) -> list[tuple[KeyPath, str]]:
    """The views that somebody should see and that are not defined."""
    named: list[tuple[KeyPath, str | None]] = [
        (("callers", name, "view"), caller.view) for name, caller in read.callers.items()
    ]
    grants = [] if read.access.oauth is None else read.access.oauth.grants
    place = ("access", "oauth", "grants")
    named += [((*place, number, "view"), grant.view) for number, grant in enumerate(grants)]
    found: list[tuple[KeyPath, str]] = []
    for path, view in named:
        if view is not None and view not in read.views:
            near = find_near_names(view, list(read.views))
            hint = f"Did you mean {near[0]}?" if near else "Define it as [views.NAME]."
            found.append((path, f"there is no view {view!r}. {hint}"))
    return found


def _find_nameless_callers(read: GatewayFile) -> list[tuple[KeyPath, str]]:
    """The callers of whom the file says something, where nobody comes in under a name."""
    if read.access.tokens or read.access.oauth is not None:
        return []
    return [(("callers", name), NAMELESS) for name in read.callers]


def _check_rule(rule: RuleTable) -> str | None:
    try:
        read_rule(rule)
    except (ValueError, TypeError) as error:
        return f"{error}."
    return None


def _find_line(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """The line of a key, or of the nearest table around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _write_path(path: KeyPath) -> str:
    if not path:
        return "the file"
    written = ""
    for step in path:
        written += f"[{step}]" if isinstance(step, int) else f".{visible_line(str(step), _SHORT)}"
    return written.removeprefix(".")


def _shorten(value: Any) -> str:
    return visible_line(repr(value), _SHORT)
