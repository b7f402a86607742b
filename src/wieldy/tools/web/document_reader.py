"""The program of a process that reads foreign documents, one after the other.

Each document comes with a line of JSON about it, and the answers are lines of JSON: `begun`, the
pages of a PDF as they are read, and the whole of it or an error.
"""

import json
import os
import re
import signal
import sys
import time
from typing import Any, BinaryIO

from wieldy.core.errors import ServiceError
from wieldy.execution.supervisor import end_with_parent

from .page_text import read_page

_MAX_HTML = 1_000_000
_MAX_MEMORY = 1 << 30
# How much later than agreed this process ends itself, for the case that nobody is left to do it.
_SPARE_SECONDS = 5
# A page with less text than this and with scripts has its text made by them, most likely.
_LITTLE = 100
# With more text than this a page is worth reading as it is, whatever it says of JavaScript.
_ENOUGH = 1000
_SCRIPT = re.compile(r"<script\b", re.IGNORECASE)
_HINT = re.compile(
    r"(enable|activate|allow|turn\s+on|requires?|needs?|without|support)\W+(\w+\W+){0,4}javascript"
    r"|javascript\W+(\w+\W+){0,4}(enabled|disabled|required|needed|turned)"
    r"|JavaScript\W{0,3}(を有効|を使用)|(启用|开启|打开|啟用)\W{0,3}javascript",
    re.IGNORECASE,
)
# An element that is there to be filled: empty, and with a name that scripts find it by.
_EMPTY_ROOT = re.compile(
    r"<(div|main|section|article|app-root)\b([^<>]{0,300})>\s{0,200}(?:<!--[^<>]{0,200}-->)?\s{0,200}"
    r"</\1>",
    re.IGNORECASE,
)
# How much of a page is looked at.
_GLANCE = 200_000


def main() -> None:
    """Read documents until there are no more."""
    end_with_parent()
    _limit_memory()
    with os.fdopen(os.dup(1), "wb") as answers:
        # A library that prints something must not disturb the answers.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        serve_documents(sys.stdin.buffer, answers)


def serve_documents(documents: BinaryIO, answers: BinaryIO) -> None:
    """Answer what comes, until there is no more."""

    def tell(**facts: Any) -> None:
        answers.write(json.dumps(facts).encode() + b"\n")
        answers.flush()

    while line := documents.readline():
        asked = json.loads(line)
        content = documents.read(asked["size"])
        if hasattr(signal, "alarm"):
            signal.alarm(int(asked["seconds"]) + _SPARE_SECONDS)
        tell(begun=True)
        try:
            tell(**_read(asked, content, tell))
        except ServiceError as error:
            tell(error=str(error))
        except MemoryError:
            tell(error="it takes more memory than a document may")


def _read(asked: dict[str, Any], content: bytes, tell: Any) -> dict[str, Any]:
    end = time.monotonic() + asked["seconds"]
    page = read_page(
        content,
        asked["content_type"],
        asked["url"],
        asked["most"],
        end,
        lambda title, text: tell(title=title, part=text),
    )
    unfinished = page.kind == "html" and needs_scripts(
        content[:_MAX_HTML].decode("utf-8", "replace"), page.text
    )
    return {
        "title": page.title,
        "text": page.text,
        "kind": page.kind,
        "complete": page.complete,
        "unfinished": unfinished,
    }


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - not every system has it

        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))


def needs_scripts(html: str, text: str) -> bool:
    """Whether a page should be shown in a browser to be read.

    Args:
        html: The page as it came.
        text: What was read of it.
    """
    head = html[:_GLANCE]
    if len(text) >= _ENOUGH or not _SCRIPT.search(head):
        return False
    return len(text) < _LITTLE or bool(_HINT.search(head) or _has_empty_root(head))


def _has_empty_root(html: str) -> bool:
    # An Angular page's own element needs no name.
    return any(
        found[1].lower() == "app-root" or " id" in found[2].lower()
        for found in _EMPTY_ROOT.finditer(html)
    )
