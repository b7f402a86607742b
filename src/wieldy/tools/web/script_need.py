"""Tell whether the text of a page is made by its scripts, from its HTML and what was read of it."""

import re

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
