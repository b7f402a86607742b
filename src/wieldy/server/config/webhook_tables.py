"""The webhooks of a gateway's file: what is wrong with them, and what they become."""

from collections import Counter
from collections.abc import Callable, Sequence

from wieldy.core.errors import InvalidSource, WieldyError
from wieldy.mcp.client.config import expand_variables, show_filled
from wieldy.server.webhooks.signatures import read_secret
from wieldy.server.webhooks.webhook import Webhook, check_address, name_of_host

from .gateway_file import WebhookTable
from .key_lines import KeyPath

_VARIABLE = "${"


class WebhookUnusable(WieldyError, ValueError):
    """A webhook of the file can't be used with this environment."""

    def __init__(self, number: int, key: str, reason: str) -> None:
        super().__init__(f"webhooks[{number}].{key}: {reason}.")


def find_bad_webhooks(tables: Sequence[WebhookTable]) -> list[tuple[KeyPath, str]]:
    """What is wrong with webhooks, by key; what the environment says is not known here."""
    found: list[tuple[KeyPath, str]] = []
    for number, table in enumerate(tables):
        checks: list[tuple[str, str | None, Callable[[str], object]]] = [
            ("url", table.url, lambda url, table=table: check_address(url, table.allow_private)),  # type: ignore[misc]
            ("secret", table.secret, read_secret),
            ("old_secret", table.old_secret, read_secret),
        ]
        for key, value, check in checks:
            if value is None or _VARIABLE in value:
                continue
            try:
                check(value)
            except ValueError as error:
                found.append((("webhooks", number, key), f"{error}."))
        if table.name is None and _VARIABLE in table.url:
            said = "needs a name, because its address is known only when it is served."
            found.append((("webhooks", number), said))
    return found + _find_same_names(tables)


def make_webhooks(tables: Sequence[WebhookTable]) -> list[Webhook]:
    """The webhooks, with what the environment says.

    Raises:
        WebhookUnusable: A variable is not set, or what it says can't be used.
    """
    return [_make_webhook(number, table) for number, table in enumerate(tables)]


def _make_webhook(number: int, table: WebhookTable) -> Webhook:
    filled: dict[str, str] = {}
    url = _expand(number, "url", table.url, filled)
    secret = _expand(number, "secret", table.secret)
    old = None if table.old_secret is None else _expand(number, "old_secret", table.old_secret)
    for key, text in (("secret", secret), ("old_secret", old)):
        try:
            if text is not None:
                read_secret(text)
        except ValueError as error:
            raise WebhookUnusable(number, key, str(error)) from None
    try:
        return Webhook(
            table.name or name_of_host(url),
            url,
            secret,
            tuple(dict.fromkeys(table.events)),
            table.tools,
            table.allow_private,
            old,
            show_filled(url, filled),
        )
    except ValueError as error:
        raise WebhookUnusable(number, "url", str(error)) from None


def _expand(number: int, key: str, text: str, filled: dict[str, str] | None = None) -> str:
    try:
        expanded = str(expand_variables(f"webhooks[{number}]", text, filled))
    except InvalidSource as error:
        raise WebhookUnusable(number, key, str(error)) from None
    if _VARIABLE in expanded:
        # The text itself may be a secret, and is not repeated.
        raise WebhookUnusable(number, key, "a variable is written like ${NAME}")
    return expanded


def _find_same_names(tables: Sequence[WebhookTable]) -> list[tuple[KeyPath, str]]:
    names = [table.name or name_of_host(table.url) for table in tables]
    counts = Counter(names)
    said = "has the same name as another webhook. Give each its own name."
    return [
        (("webhooks", number), said)
        for number, name in enumerate(names)
        if name and counts[name] > 1 and number > names.index(name)
    ]
