"""The instructions of the servers behind, joined under their names."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.outside.suspicious_text import find_suspicious
from wieldy.core.secrets.secret import redact_text
from wieldy.core.short_text import cut_counted
from wieldy.core.visible_text import visible_line, visible_lines
from wieldy.mcp.client.server_link import Server

MAX_LENGTH, MAX_TOGETHER = 4000, 32_000
PLACE = "instructions"
_METHODS = ("initialize", "server/discover")


def has_instructions(method: str) -> bool:
    """Whether the answer to a request has instructions in it."""
    return method in _METHODS


def add_instructions(result: Any, servers: Iterable[Server]) -> Any:
    """An answer with the instructions of these servers after our own."""
    if not isinstance(result, Mapping):
        return result
    joined = join_instructions(servers)
    if not joined:
        return result
    own = result.get("instructions")
    return {**result, "instructions": f"{own}\n\n{joined}" if own else joined}


def join_instructions(servers: Iterable[Server]) -> str:
    """What the servers tell a model, each below a heading with its name.

    It is text from outside: what is suspicious is left out and noted in the server's errors, and
    what is long is cut.
    """
    parts: list[str] = []
    left = MAX_TOGETHER
    for server in servers:
        said = _readable_instructions(server)
        if said and len(said) <= left:
            left -= len(said)
            parts.append(f"## {visible_line(server.name, 80)}\n\n{said}")
    return "\n\n".join(parts)


def _readable_instructions(server: Server) -> str:
    text = redact_text(server.instructions or "", server.secrets).strip()
    if not text:
        return ""
    found = next(iter(find_suspicious(PLACE, text, "definition")), None)
    if found is not None:
        server.offerings.errors[PLACE] = f"left out: {found.kind}: {found.passage}"
        return ""
    server.offerings.errors.pop(PLACE, None)
    # A heading in the text must not look like that of another server.
    lines = visible_lines(cut_counted(text, MAX_LENGTH)).split("\n")
    return "\n".join(f"\\{line}" if line.lstrip().startswith("#") else line for line in lines)
