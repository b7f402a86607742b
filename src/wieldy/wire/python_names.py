"""Names of tools and arguments as a Python program can write them."""

import builtins
import hashlib
import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

__all__ = ["KEYWORDS", "RESERVED", "python_names"]

KEYWORDS = frozenset(keyword.kwlist)
# A function that is named like one of Python's own would hide it from the program.
RESERVED = KEYWORDS | frozenset(dir(builtins))
_OTHER = re.compile(r"\W+")
_HASH_LENGTH = 8


def python_names(names: Iterable[str], reserved: frozenset[str] = RESERVED) -> dict[str, str]:
    """A name for each of these that is a Python identifier, and that no other has.

    A name that is an identifier already stays as it is. The others get a readable form, with a
    hash where two of them would be the same. The result does not depend on their order.

    Args:
        names: The names.
        reserved: What no name may be.

    Returns:
        The identifiers, by name.

    Example:
        `python_names(["get-weather", "print"])` gives `get_weather` and `print_`.
    """
    listed = list(dict.fromkeys(names))
    found = {name: name for name in listed if _is_free(name, reserved)}
    readable = {name: _readable_name(name, reserved) for name in listed if name not in found}
    wanted = Counter(readable.values())
    for name, form in readable.items():
        alone = wanted[form] == 1 and form not in found
        found[name] = form if alone else _hashed_name(name, form, found, wanted)
    return found


def _is_free(name: str, reserved: frozenset[str]) -> bool:
    # Python compares identifiers in this form.
    return name.isidentifier() and name not in reserved and _normal_form(name) == name


def _normal_form(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _readable_name(name: str, reserved: frozenset[str]) -> str:
    form = _OTHER.sub("_", _normal_form(name)).strip("_") or "tool"
    form = form if form.isidentifier() else f"_{form}"
    form = form if form.isidentifier() else "tool"
    return f"{form}_" if form in reserved else form


def _hashed_name(name: str, form: str, found: dict[str, str], wanted: Counter[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    length = _HASH_LENGTH
    while (hashed := f"{form}_{digest[:length]}") in found or hashed in wanted:
        length += 1
    return hashed
