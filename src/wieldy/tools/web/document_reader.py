"""The program of a process that reads foreign documents, one after the other.

Each document comes with a line of JSON about it, and the answers are lines of JSON: `begun`, the
pages of a PDF as they are read, and the whole of it or an error.
"""

import json
import os
import signal
import sys
import time
from typing import Any, BinaryIO

from wieldy.core.errors import ServiceError
from wieldy.execution.supervisor import end_with_parent

from .page_text import read_page
from .script_need import needs_scripts

_MOST_HTML = 1_000_000
_MOST_MEMORY = 1 << 30
# How much later than agreed this process ends itself, for the case that nobody is left to do it.
_SPARE_SECONDS = 5


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
        content[:_MOST_HTML].decode("utf-8", "replace"), page.text
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

        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
