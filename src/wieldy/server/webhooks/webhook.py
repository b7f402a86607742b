"""A webhook: where messages go, what they tell, and the secret that signs them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic_core import Url, ValidationError

from wieldy.core.choices import EventKind
from wieldy.core.network.addresses import is_near_url
from wieldy.store.outbox.subscriptions import Subscription

from .signatures import read_secret

EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
_MAX_URL = 2000


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of messages.

    Attributes:
        name: Its name, for the API and the record: letters, digits, `_`, `.` and `-`.
        url: Where messages are sent: an address with https.
        secret: What signs them: `whsec_` and a key in base64, or a text of 24 characters or more.
        events: The kinds of events that are sent; all, if nothing is said.
        tools: A pattern such as `github_*` that the tool's name has to fit.
        allow_private: Whether the address may be on this machine or its network, or without https.
        old_secret: A second secret that signs too, while receivers change to the new one.
        written: What people are shown as the address, if that is something else than `url`.

    Raises:
        ValueError: The name, the address, a secret or an event can't be used.

    Example:
        `app(box, webhooks=[Webhook("chat", "https://chat.example.com/hook", secret)])`
    """

    name: str
    url: str = field(repr=False)
    secret: str = field(repr=False)
    events: Sequence[EventKind] = EVENT_KINDS
    tools: str | None = None
    allow_private: bool = False
    old_secret: str | None = field(default=None, repr=False)
    written: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if re.fullmatch(NAME_PATTERN, self.name) is None:
            raise ValueError(f"a webhook's name fits {NAME_PATTERN}, not {self.name!r:.80}")
        check_address(self.url, self.allow_private)
        unknown = [each for each in self.events if each not in EVENT_KINDS]
        if unknown or not self.events or isinstance(self.events, str):
            raise ValueError(
                f"events are some of {', '.join(EVENT_KINDS)}, not {self.events!r:.80}"
            )
        self.read_keys()

    def read_keys(self) -> list[bytes]:
        """The keys that sign each message, the current one first."""
        given = (self.secret, self.old_secret)
        return [read_secret(each) for each in given if each is not None]

    @property
    def shown_url(self) -> str:
        """The address for people: without a query, in which there may be a key."""
        parts = urlsplit(self.written or self.url)
        shown = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        return f"{shown}?…" if parts.query else shown

    @property
    def subscription(self) -> Subscription:
        """What the store has to know of it."""
        mark = hashlib.sha256(self.url.encode()).hexdigest()
        return Subscription(self.name, frozenset(self.events), self.tools, mark)


def check_address(url: str, allow_private: bool) -> None:
    """Refuse an address that messages can't or must not be sent to.

    Raises:
        ValueError: It is no such address, and why.
    """
    problem = _find_fault(url)
    if problem is not None:
        raise ValueError(problem)
    if allow_private:
        return
    if is_near_url(url):
        raise ValueError(
            "the address is on this machine or its network. Write allow_private = true if you "
            "mean that"
        )
    if not url.lower().startswith("https:"):
        raise ValueError(
            "the address begins with https://. Write allow_private = true for one without, "
            "in a network of your own"
        )


def name_of_host(url: str) -> str:
    """The name that a webhook has if none is given: the host of its address."""
    host = urlsplit(url).hostname or ""
    return re.sub(r"[^a-z0-9_.-]", "-", host.lower()).strip("-.")[:100]


def _find_fault(url: str) -> str | None:
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"an address has at most {_MAX_URL} printable ASCII characters, without blanks"
    try:
        parts, other = urlsplit(url), Url(url)
        host, port = parts.hostname, parts.port
    except (ValueError, ValidationError):
        return "that is no address. It is written like https://chat.example.com/hook"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return "the address begins with https:// and a host"
    if (other.host or "").strip("[]") != host:
        return "the host can be read in two ways. Write it plainly"
    if parts.username is not None or parts.password is not None:
        return "an address has no user and password. The signature says who sends the message"
    if parts.fragment:
        return "an address has no part after a #"
    return None
