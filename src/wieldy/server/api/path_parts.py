"""Names and ids as one part of a path, whatever characters they hold.

Browsers and proxies take `..`, `.` and empty parts out of a path, even percent-encoded, and some
of them decode `%2F`. A tilde and two hex digits stand for such a character, because nobody on
the way changes a tilde.
"""

import re
from urllib.parse import quote

_SAFE = "!*'()"
_ESCAPE = re.compile("~([0-7][0-9A-Fa-f])")
_EMPTY = "~"


def write_part(name: str) -> str:
    """A name as a part of a path, such as `a~2Fb` for `a/b`."""
    text = quote(name, safe=_SAFE, errors="replace").replace("~", "~7E")
    if not text.strip("."):
        return text.replace(".", "~2E") or _EMPTY
    # Other characters stay percent-encoded, and a browser shows them as they are.
    return re.sub("%(?=[0-7])", "~", text)


def read_part(text: str) -> str:
    """The name in a part of a path that is percent-decoded. One without a tilde is the name."""
    if text == _EMPTY:
        return ""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
