"""Put the credentials from `auth` and `headers` into requests."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from wieldy.core.errors import DocumentError
from wieldy.core.names import find_near_names
from wieldy.core.secrets.credential import preset_secrets
from wieldy.core.secrets.secret import Secret, reveal_secret

from .document import Document, Node
from .operation import Operation
from .operation_arguments import TOKEN
from .style import header_text

# A token or key for the only scheme of the document, or one for each scheme by its name.
# The secret of a `basic` scheme is "user:password".
Auth = str | Secret | Mapping[str, str | Secret]

_ALWAYS = "a bearer token"


class Credentials:
    """The secrets of one API, by the name of their scheme, and headers for every request."""

    def __init__(
        self, document: Document, auth: Auth | None, headers: Mapping[str, Any] | None
    ) -> None:
        self._schemes = _read_schemes(document)
        self._root = document.root.get("security")
        self._given = _given_secrets(document, self._schemes, auth)
        self._headers = {
            name: _sendable_text(document, name, value) for name, value in (headers or {}).items()
        }
        hidden = self._secret_headers(headers or {})
        self.secrets = tuple(map(Secret, _all_forms(self._given.values(), hidden)))

    def __bool__(self) -> bool:
        return bool(self._given or self._headers)

    def headers(self) -> dict[str, str]:
        """The headers that every request has."""
        return dict(self._headers)

    def _secret_headers(self, headers: Mapping[str, Any]) -> dict[str, Any]:
        """The headers, with those marked as secret that identify the caller."""
        keys = (scheme for scheme in self._schemes.values() if scheme.get("in") == "header")
        names = {"cookie", *(str(scheme.get("name")).lower() for scheme in keys)}
        return {
            name: Secret(reveal_secret(value)) if name.lower() in names else value
            for name, value in headers.items()
        }

    def for_operation(self, operation: Operation) -> list[tuple[str, str, str]]:
        """The secrets of an operation, each as (place, name, value)."""
        return [
            part for name in self._chosen_schemes(operation) for part in self._secret_parts(name)
        ]

    def missing(self, operation: Operation) -> str:
        """A description of the credentials that an operation requires and that are missing."""
        asked = [each for each in self._list_requirements(operation) or [] if each]
        if self._headers or not asked or any(each.keys() <= self._given.keys() for each in asked):
            return ""
        names = " or ".join(" and ".join(map(str, each)) for each in asked)
        return f' It needs {names}: pass auth={{"{next(iter(asked[0]))}": …}}.'

    def _list_requirements(self, operation: Operation) -> list[Mapping[str, Any]] | None:
        own = operation.node.get("security")
        given = self._root if own is None else own
        if not isinstance(given, list):
            return None
        return [each for each in given if isinstance(each, Mapping)]

    def _chosen_schemes(self, operation: Operation) -> Iterable[str]:
        """The schemes of the first alternative that can be met."""
        requirements = self._list_requirements(operation)
        if requirements is None or _ALWAYS in self._given:
            # The document requires nothing, but the caller gave credentials for a reason.
            return list(self._given) if requirements != [] else []
        met = (each for each in requirements if each and each.keys() <= self._given.keys())
        return list(next(met, {}))

    def _secret_parts(self, name: str) -> list[tuple[str, str, str]]:
        scheme, value = self._schemes.get(name, {}), self._given[name]
        kind = scheme.get("type")
        if kind == "apiKey":
            return [(str(scheme.get("in")), str(scheme.get("name")), value)]
        if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
            return [("header", "Authorization", f"Basic {_basic_token(value)}")]
        if kind == "http" and str(scheme.get("scheme")).lower() != "bearer":
            return [("header", "Authorization", f"{scheme.get('scheme')} {value}")]
        return [("header", "Authorization", f"Bearer {value}")]


def _read_schemes(document: Document) -> dict[str, Mapping[str, Any]]:
    components = Node(document.root.get("components"), document.address)
    listed = components.child("securitySchemes")
    found: dict[str, Mapping[str, Any]] = {}
    for name in listed.value if isinstance(listed.value, Mapping) else ():
        scheme = document.follow(listed.child(name))
        if scheme is not None and isinstance(scheme.value, Mapping):
            found[str(name)] = scheme.value
    return found


def _given_secrets(
    document: Document, schemes: Mapping[str, Any], auth: Auth | None
) -> dict[str, str]:
    if auth is None:
        return {}
    if not isinstance(auth, Mapping):
        if len(schemes) > 1:
            names = ", ".join(schemes)
            raise DocumentError(
                document.shown, f'it has several ways to say who asks ({names}): auth={{"…": …}}'
            )
        auth = {next(iter(schemes), _ALWAYS): auth}
    for name in auth:
        if name not in schemes and name != _ALWAYS:
            close = find_near_names(name, schemes)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            known = ", ".join(schemes) or "none"
            reason = f"it has no security scheme {name!r}; there are: {known}.{hint}"
            raise DocumentError(document.shown, reason)
    return {name: _sendable_text(document, name, value, "auth") for name, value in auth.items()}


def _sendable_text(document: Document, name: Any, value: Any, what: str = "headers") -> str:
    """The text of a header or a secret, if it is one that can be sent."""
    text = reveal_secret(value)
    if not isinstance(name, str) or not isinstance(text, str):
        raise DocumentError(document.shown, f"{what}: names and values must be text")
    if what == "headers" and not TOKEN.match(name):
        raise DocumentError(document.shown, f"{name!r:.200} is no name for a header")
    try:
        return header_text(f"{what}[{name!r}]", text)
    except ValueError as error:
        raise DocumentError(document.shown, str(error)) from None


def _basic_token(value: str) -> str:
    return base64.b64encode(value.encode("utf-8")).decode("ascii")


def _all_forms(given: Iterable[str], headers: Mapping[str, Any]) -> list[str]:
    """The secrets in every form in which they are sent."""
    plain = list(given)
    forms = [*plain, *map(_basic_token, plain), *(quote(each, safe="") for each in plain)]
    # The password of a pair is as secret as the pair.
    forms += [each.partition(":")[2] for each in plain if ":" in each]
    forms += preset_secrets(headers)
    return [form for form in dict.fromkeys(forms) if form]
