"""Names under which clients know what the servers behind offer, so that no two are the same.

A URI or a name that only one server has stays as it is. One that several have is qualified for
each of them, so that no server can take the place of another: a URI is written
`wieldy:SERVER/URI`, a prompt `SERVER__PROMPT`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar
from urllib.parse import quote, unquote

T = TypeVar("T")
SCHEME = "wieldy"
# URIs of these schemes are ours, whoever uses them.
_OURS = (SCHEME, "artifact")


def qualify_uri(server: str, uri: str) -> str:
    """The URI of a resource, or a template, with its server in it."""
    return f"{SCHEME}:{quote(server, safe='')}/{uri}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own URI of a qualified URI; None for any other."""
    scheme, colon, rest = uri.partition(":")
    server, slash, own = rest.partition("/")
    if scheme.lower() != SCHEME or not (colon and slash and server and own):
        return None
    return unquote(server), own


def is_ours(uri: str) -> bool:
    """Whether a URI has a scheme that means something here, so that it can't stay as it is."""
    return uri.partition(":")[0].lower() in _OURS


def name_uris(offered: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Name each URI, given as pairs of a server and its URI."""
    pairs = list(offered)
    count = Counter(uri for _, uri in pairs)
    return {
        (server, uri): qualify_uri(server, uri) if count[uri] > 1 or is_ours(uri) else uri
        for server, uri in pairs
    }


def name_prompts(offered: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Name each prompt, given as its server, the server's prefix and the prompt's name."""
    plain = {(server, name): f"{prefix}{name}" for server, prefix, name in offered}
    full = {key: f"{key[0]}__{name}" for key, name in plain.items()}
    count = Counter(plain.values())
    # A prompt that is called like another's qualified name must not be taken for it.
    qualified = {full[key] for key, name in plain.items() if count[name] > 1}
    found: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for key, name in plain.items():
        clear = count[name] == 1 and name not in qualified
        found[key] = _free_name(name if clear else full[key], taken)
        taken.add(found[key])
    return found


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
