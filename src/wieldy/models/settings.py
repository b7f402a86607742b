"""The settings of a model: its address, key, timeouts and limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from wieldy.core.secrets.credential import is_credential
from wieldy.core.secrets.secret import Secret

_HEADER = re.compile("[\x20-\x7e]*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The address of a model, how requests are sent, and the limits of its answers.

    `silence` is the longest time in seconds without anything new in the answer, `timeout` the
    longest time for the whole answer, and `max_answer` its largest size in bytes. A request is
    retried only while no part of the answer has arrived. At most `connections` requests with
    one key run at a time; others wait for their turn.
    """

    base_url: str
    api_key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    context_window: int | None = None
    connect_timeout: float = 10.0
    silence: float = 120.0
    timeout: float = 600.0
    retries: int = 2
    max_answer: int = 4_000_000
    connections: int = 100

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "silence", "timeout", "max_answer", "connections"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"{name} is a number above 0, not {value!r}")
        if not isinstance(self.retries, int) or self.retries < 0:
            raise ValueError(f"retries is a whole number of 0 or more, not {self.retries!r}")
        check_model_address(self.base_url)
        if self.api_key is not None and not _HEADER.fullmatch(self.api_key.get_secret_value()):
            raise ValueError("api_key has characters in it that no HTTP header can hold")

    @property
    def secrets(self) -> list[str]:
        """The values that must not be shown: the key, and headers with the name of a credential."""
        key = [] if self.api_key is None else [self.api_key.get_secret_value()]
        return [each for each in (*key, *_private_values(self.headers)) if each]


def same_server(one: str, other: str) -> bool:
    """Whether two addresses belong to the same server, which may receive the same key."""
    return _server_of(one) == _server_of(other)


def check_model_address(url: str) -> None:
    """Refuse a text that is no address, and an address with a password, as addresses are shown."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
        private = parts.username is not None or parts.password is not None
    except (ValueError, AttributeError, TypeError):
        fine, private = False, False
    if private:
        raise ValueError("base_url holds a user name or a password. Pass api_key= or headers=")
    if not fine:
        raise ValueError(f"base_url begins with http:// or https:// and names a host, not {url!r}")


def _server_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _private_values(headers: Mapping[str, str]) -> list[str]:
    return [value for name, value in headers.items() if is_credential(name)]
