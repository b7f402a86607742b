"""Let a person's browser in by the cookie of its session, and no page of another origin."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from wieldy.core.errors import WieldyError

from .callers import Identity, SessionIdentifier
from .refusals import Refusal

Headers = Iterable[tuple[bytes, bytes]]
_COOKIE = "wieldy_session"
# Browsers keep other hosts from setting a cookie with this prefix, and want https for it.
_SECURE_PREFIX = "__Host-"
_PORT = re.compile(r":([0-9]{1,5})$")
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_FOREIGN = Refusal(403, "A browser's session changes things only from the gateway's own pages.")
SESSION_OVER = Refusal(401, "The session has ended. Sign in again.")
_LATER = Refusal(503, "The session can't be checked now. Try again.")


async def identify_session(
    identifiers: Sequence[SessionIdentifier], headers: Headers, method: str
) -> Identity | Refusal | None:
    """Whose session a request belongs to; None if it has no cookie of ours.

    A cookie goes along with whatever a page makes a browser send. So a request that changes
    something must come from a page of the same origin, and one that says it comes from another
    is refused in any case.
    """
    kept = [*headers]
    key = read_session_key(kept)
    if key is None:
        return None
    fetched = _find_header(kept, b"sec-fetch-site")
    if fetched not in (None, "same-origin", "none"):
        return _FOREIGN
    if method not in _SAFE_METHODS and not comes_from_same_origin(kept):
        return _FOREIGN
    try:
        for each in identifiers:
            identity = await each.identify_session(key)
            if identity is not None:
                return identity
    except WieldyError:
        return _LATER
    return SESSION_OVER


def read_session_key(headers: Headers) -> str | None:
    """The key in the cookie of a session; None if there is none, or more than one."""
    kept = [*headers]
    known = [name_cookie(kept, secure) for secure in (False, True)]
    sent = [value.decode("latin-1") for name, value in kept if name == b"cookie"]
    pairs = [part.partition("=") for each in sent for part in each.split(";")]
    found = [value.strip() for name, _, value in pairs if name.strip() in known]
    # A cookie that is there twice may have been set by another server of this host.
    return found[0] if len(found) == 1 else None


def name_cookie(headers: Headers, secure: bool) -> str:
    """The name of the cookie of a session, with the port that the browser called.

    Browsers send a cookie to all ports of a host, so that two gateways of one host would
    otherwise end each other's sessions.
    """
    port = _PORT.search(_find_header(headers, b"host") or "")
    name = _COOKIE if port is None else f"{_COOKIE}_{port[1]}"
    return _SECURE_PREFIX + name if secure else name


def comes_from_same_origin(headers: Headers) -> bool:
    """Whether a browser says that a page of the server itself sends a request."""
    kept = [*headers]
    if _find_header(kept, b"sec-fetch-site") not in (None, "same-origin"):
        return False
    origin, host = _find_header(kept, b"origin"), _find_header(kept, b"host")
    if origin is None:
        return _find_header(kept, b"sec-fetch-site") == "same-origin"
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    # Behind a proxy the scheme may differ, and the port does not.
    return parts.scheme in ("http", "https") and parts.netloc == host


def _find_header(headers: Headers, wanted: bytes) -> str | None:
    found = [value.decode("latin-1").strip().lower() for name, value in headers if name == wanted]
    # A header that is sent twice is not believed.
    return found[0] if len(found) == 1 else (None if not found else "")
