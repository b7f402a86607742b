"""Follow references to other files and addresses, if the caller allows it."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from wieldy.core.errors import DocumentError
from wieldy.core.network.http_client import Client, url_origin

from .document import Document, outward_references
from .loading import load_address

# False for none, True for the document's own folder or host, or more folders and addresses.
Consent = bool | Iterable[str]

_MAX_DOCUMENTS = 500


async def gather_documents(document: Document, consent: Consent, client: Client) -> None:
    """Load every document that this one refers to; `DocumentError` if one is not allowed."""
    given = _given_places(consent)
    for place in given:
        if place.startswith("http"):
            client.allow(place)
    allowed = _allowed_places(document, given) if consent is not False else []
    waiting = [(document.address, document.root)]
    while waiting:
        address, data = waiting.pop()
        for reference in outward_references(data):
            target = _locate_target(document, reference, address)
            if target in document.documents:
                continue
            _check_allowed(document, reference, target, allowed)
            if len(document.documents) > _MAX_DOCUMENTS:
                raise DocumentError(document.shown, f"it has more than {_MAX_DOCUMENTS} parts")
            loaded = await load_address(target, client)
            # The target of a redirect or a link has to be allowed as well.
            _check_allowed(document, reference, loaded.address, allowed)
            document.documents[target] = loaded.data
            waiting.append((target, loaded.data))


def _given_places(consent: Consent) -> list[str]:
    """The folders and addresses that the user named."""
    if isinstance(consent, bool):
        return []
    return [consent] if isinstance(consent, str) else list(consent)


def _allowed_places(document: Document, given: list[str]) -> list[str]:
    """The addresses under which a document may be read: its own place, and those given."""
    parts = urlsplit(document.address)
    own = []
    if parts.scheme == "file":
        own.append(str(_file_path(document.address).parent))
    elif parts.scheme:
        own.append(f"{parts.scheme}://{parts.netloc}/")
    return [each if "://" in each else Path(each).resolve().as_uri() for each in (*given, *own)]


def _locate_target(document: Document, reference: str, address: str) -> str:
    try:
        return document.locate(reference, address)[0]
    except ValueError:
        raise DocumentError(
            document.shown, f"the reference {reference!r:.200} is no address"
        ) from None


def _check_allowed(document: Document, reference: str, target: str, allowed: list[str]) -> None:
    if any(_is_under(target, place) for place in allowed):
        return
    if urlsplit(target).scheme not in ("http", "https", "file"):
        reason = "can't be followed: only a document from a file or a URL has others beside it"
    elif not allowed:
        reason = (
            "is not followed without consent. Pass refs=True for its own folder or host, "
            'or refs=["…"] with the folders and addresses that it may read.'
        )
    else:
        reason = 'leads out of what is allowed. Add where it leads: refs=["…"].'
    raise DocumentError(document.shown, f"the reference {reference!r:.200} {reason}")


def _is_under(target: str, place: str) -> bool:
    if urlsplit(target).scheme == "file":
        # Both paths are resolved, so that neither `..` nor a link leads elsewhere.
        return place.startswith("file:") and _file_path(target).is_relative_to(_file_path(place))
    if not place.startswith("http") or url_origin(target) != url_origin(place):
        return False
    folder = urlsplit(place).path.rstrip("/")
    path = unquote(urlsplit(target).path)
    inside = path == folder or path.startswith(folder + "/")
    return inside and ".." not in path.split("/")


def _file_path(address: str) -> Path:
    return Path(url2pathname(urlsplit(address).path)).resolve()
