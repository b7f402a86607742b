"""Pages that are made by scripts, and what is known of the browsers that show them."""

import os
from pathlib import Path

from tests.openapi.api import Api
from wieldy.execution.process_tree import find_descendants

# A page with no text of its own, which waits to be filled.
EMPTY = '<!doctype html><html><head><title>App</title></head><body><div id="app"></div>'


def script_page(script: str, body: str = "") -> str:
    """A page whose text is made by a script."""
    return f"{EMPTY}{body}<script>const app = document.getElementById('app');{script}</script>"


def put(site: Api, path: str, page: str) -> str:
    """Have a page served; gives its address."""
    site.answer(path, 200, page, Content_Type="text/html; charset=utf-8")
    return site.url + path


def browsers(root: int | None = None) -> dict[int, list[str]]:
    """The browsers below a process, each with its command line."""
    found = {}
    for pid in find_descendants([root or os.getpid()]):
        words = command_line(pid)
        if "--remote-debugging-pipe" in words and "chrom" in words[0]:
            found[pid] = words
    return found


def command_line(pid: int) -> list[str]:
    """The words that a process was started with; none if it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def environment(pid: int) -> str:
    """The environment that a process was started with."""
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except OSError:
        return ""


def status_line(pid: int, name: str) -> str:
    """One line of what the kernel says about a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))
