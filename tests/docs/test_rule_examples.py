"""The examples of how rules match are true."""

import re
from pathlib import Path

import pytest

from wieldy import Toolbox
from wieldy.core.choices import PermissionName

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
ROW = re.compile(r"\| `(.+?)` \| `(.+?)` \| (yes|no) \| (yes|no) \|")


def examples() -> list[tuple[str, ...]]:
    table = PAGE.read_text().partition("<!-- rule examples -->")[2].partition("\n\n")[0]
    return [tuple(row) for row in ROW.findall(table)]


def test_there_are_examples() -> None:
    lines = PAGE.read_text().partition("<!-- rule examples -->")[2].partition("\n\n")[0]
    assert len(examples()) == lines.count("\n|") - 2 > 10


@pytest.mark.parametrize(("pattern", "text", "allows", "denies"), examples())
async def test_the_table_of_examples_is_true(
    pattern: str, text: str, allows: str, denies: str
) -> None:
    async def fetch(it: str) -> None: ...

    said = []
    tries: tuple[tuple[str, PermissionName, str], ...]
    tries = ("allow", "confirm", "ok"), ("deny", "auto", "denied")
    for verdict, permission, expected in tries:
        box = Toolbox()
        box.add(fetch, permission=permission)
        getattr(box.rules, verdict)("fetch", where={"it": pattern})
        matched = (await box.call("fetch", {"it": text})).status.value == expected
        said.append("yes" if matched else "no")
    assert said == [allows, denies]
