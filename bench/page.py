"""Put measured tables into the documentation."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version

from .child import ROOT

PAGE = ROOT / "docs" / "performance.md"


def rewrite(text: str, name: str, table: str) -> str:
    """The page with the part between the markers of this name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no markers {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{circumstances()}\n\n{table}\n{end}", text)


def write(name: str, table: str) -> None:
    """Rewrite the part of this name on the page."""
    PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), name, table), encoding="utf-8")


def circumstances() -> str:
    """When and with what it was measured."""
    cores = len(os.sched_getaffinity(0))
    today = datetime.now(UTC).date().isoformat()
    return (
        f"Measured on {today} with Python {platform.python_version()}, "
        f"pydantic {version('pydantic')} and wieldy {version('wieldy')}, "
        f"on {platform.system()} with {cores} cores."
    )
