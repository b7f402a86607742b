"""The table of the page "Permissions": every cell is asked of a toolbox.

`python -m tests.docs.permission_table` writes it into the page anew.
"""

import asyncio
from pathlib import Path
from typing import Any

from wieldy import Tool, Toolbox
from wieldy.core.choices import PermissionMode
from wieldy.core.permission.modes import MODES

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
MARK = "<!-- permission table -->\n"
# Tools of one row are treated alike.
TRAITS: dict[str, list[dict[str, Any]]] = {
    "read-only": [{"read_only": True}, {"read_only": True, "idempotent": True}],
    "read-only and open-world": [
        {"read_only": True, "open_world": True},
        {"read_only": True, "cautious": True},
    ],
    "none of these traits": [{}, {"idempotent": True}],
    "destructive or open-world": [
        {"destructive": True},
        {"open_world": True},
        {"cautious": True},
    ],
}
# The rule that matches, if one does, and the tool's own permission.
COLUMNS: dict[str, tuple[str | None, str]] = {
    "no rule, `auto`": (None, "auto"),
    "no rule, `confirm`": (None, "confirm"),
    "allow rule": ("allow", "confirm"),
    "ask rule": ("ask", "auto"),
    "deny rule": ("deny", "auto"),
}
WORDS = {"run": "runs", "ask": "asks", "deny": "denied", "dry-run": "dry run"}


def touch(path: str = "a") -> str:
    return path


async def decide(
    mode: PermissionMode, traits: dict[str, Any], rule: str | None, permission: Any
) -> str:
    """What becomes of a call of such a tool."""
    box = Toolbox(permission_mode=mode)
    box.add(Tool(touch, permission=permission, **traits))
    if rule is not None:
        getattr(box.rules, rule)("touch")
    return WORDS[(await box.explain_permission("touch")).decision]


async def make_table() -> str:
    """The table as it should stand in the page."""
    head = ["mode", "tool", *COLUMNS]
    lines = [_line(head), _line(["---"] * len(head))]
    for mode in MODES:
        for trait, alike in TRAITS.items():
            cells = []
            for rule, permission in COLUMNS.values():
                found = {await decide(mode, traits, rule, permission) for traits in alike}
                cells.append("/".join(sorted(found)))
            lines.append(_line([f"`{mode}`", trait, *cells]))
    return "\n".join(lines)


def read_table() -> str:
    """The table that stands in the page."""
    return PAGE.read_text().partition(MARK)[2].partition("\n\n")[0]


def write_table() -> None:
    """Put the table into the page."""
    page = PAGE.read_text()
    PAGE.write_text(page.replace(MARK + read_table(), MARK + asyncio.run(make_table())))


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write_table()
