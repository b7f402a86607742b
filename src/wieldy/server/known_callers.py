"""What is known of the callers of a gateway, for servers that each of them reaches as themselves.

A call may run when its caller is not there: another person has approved it, or the gateway was
started again. It runs as its own caller or not at all.
"""

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from wieldy.core.canonical import canonical_json, digest_of
from wieldy.core.visible_text import visible_line
from wieldy.mcp.client.config import expand_variables
from wieldy.mcp.serving.callers import WORD_CLAIMS, Identity, current_identity

from .config.caller_templates import CallerFact
from .config.gateway_file import CallerTable

T = TypeVar("T")
_MAX_KNOWN = 10_000
_EXPIRY = "exp"
# As much as an issuer's clock may differ when a token is checked.
_LEEWAY_SECONDS = 30.0


class FactMissing(Exception):
    """Something about a caller is not known; the message says what, and what to do."""


class KnownCallers:
    """Finds facts about callers by their names.

    The claims of a caller are those with which they come in, and otherwise those with which they
    came in last, until that token has expired. Only the claims that the file names are kept.

    Args:
        callers: What the file says about callers by name; it may change.
    """

    def __init__(self, callers: Mapping[str, CallerTable]) -> None:
        self._callers = callers
        self._wanted: frozenset[str] = frozenset()
        self._claims: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._bound: frozenset[str] = frozenset()
        self._digests: OrderedDict[str, _Digests] = OrderedDict()

    def want_claims(self, names: Collection[str]) -> None:
        """Keep these claims of whoever comes in from now on, and forget all others."""
        self._wanted = frozenset(names)
        for caller, claims in self._claims.items():
            self._claims[caller] = self._choose_claims(claims)

    def bind_claims(self, names: Collection[str]) -> None:
        """Keep digests of these claims too: servers are sent them, and no credential is made."""
        self._bound = frozenset(names)

    def note(self, identity: Identity) -> None:
        """Keep what is known of somebody who comes in."""
        if self._wanted:
            _remember(self._claims, identity.name, self._choose_claims(identity.claims))
        digests = self._digest_claims(identity)
        if digests.by_name:
            _remember(self._digests, identity.name, digests)
        else:
            self._digests.pop(identity.name, None)

    def find_digests(self, caller: str | None, names: Collection[str] = ()) -> dict[str, str]:
        """Digests of what chose the view of a caller, and of the claims of these names."""
        known = self._find_digests(caller)
        if known is None:
            return {}
        return {
            name: digest
            for name, digest in known.by_name.items()
            if name in names or name in known.chosen_by
        }

    def find_changed(self, caller: str | None, kept: Mapping[str, str]) -> str | None:
        """The name of a claim that differs from what was kept; None if none does.

        Where nothing is known of a caller any more, nothing differs.
        """
        known = self._find_digests(caller)
        by_name = {} if known is None else known.by_name
        # Of a claim that is asked for nowhere any more, there is no digest to compare.
        differing = (name for name, digest in kept.items() if by_name.get(name, digest) != digest)
        return next(differing, None)

    def _find_digests(self, caller: str | None) -> "_Digests | None":
        present = current_identity()
        if present is not None and present.name == caller:
            return self._digest_claims(present)
        return None if caller is None else self._digests.get(caller)

    def _digest_claims(self, identity: Identity) -> "_Digests":
        claims = identity.claims
        bound = (self._bound if claims else frozenset()) | {*identity.chosen_by}
        return _Digests(
            identity.chosen_by,
            {name: digest_of(_unordered(name, claims.get(name))) for name in sorted(bound)},
        )

    def find(
        self, caller: str | None, fact: CallerFact, filled: dict[str, str] | None = None
    ) -> str:
        """A fact about a caller; `FactMissing` says why it is not known.

        What comes of a variable of the environment is noted in `filled`, as it is to be shown.
        """
        if caller is None:
            raise FactMissing("this call has no caller. It has to come with a token")
        if fact.kind == "name":
            return caller
        if fact.kind == "values":
            return self._find_value(caller, fact, filled)
        return self._find_claim(caller, fact)

    def _find_value(self, caller: str, fact: CallerFact, filled: dict[str, str] | None) -> str:
        table = self._callers.get(caller)
        given = None if table is None else table.values.get(fact.key)
        if given is None:
            said = f"{visible_line(caller, 80)} has no value {fact.key}. It belongs below [callers]"
            raise FactMissing(said)
        expanded: str = expand_variables(f"callers.{caller}", given, filled, fact.key)
        return expanded

    def _find_claim(self, caller: str, fact: CallerFact) -> str:
        present = current_identity()
        if present is not None and present.name == caller:
            claims: Mapping[str, Any] | None = present.claims
        else:
            claims = self._claims.get(caller)
        # A call may have waited for longer than the token was good for.
        if claims is not None and time.time() >= _expiry_of(claims) + _LEEWAY_SECONDS:
            claims = None
        if claims is None:
            raise FactMissing(
                f"the claims of {visible_line(caller, 80)} are not known any more. They have to "
                "come in again, and then make the call again"
            )
        value = claims.get(fact.key)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise FactMissing(
                f"the token of {visible_line(caller, 80)} has no claim {fact.key} that is a text"
            )
        return str(value)

    def _choose_claims(self, claims: Mapping[str, Any]) -> dict[str, Any]:
        kept = self._wanted | {_EXPIRY}
        return {name: value for name, value in claims.items() if name in kept}


class _Digests(NamedTuple):
    """The names of the claims that chose somebody's view, and digests of these and others."""

    chosen_by: tuple[str, ...]
    by_name: dict[str, str]


def _remember(kept: OrderedDict[str, T], caller: str, known: T) -> None:
    kept[caller] = known
    kept.move_to_end(caller)
    while len(kept) > _MAX_KNOWN:
        kept.popitem(last=False)


def _unordered(name: str, value: Any) -> Any:
    """A claim so that the order of what it lists makes no difference."""
    values = value.split() if isinstance(value, str) and name in WORD_CLAIMS else value
    return sorted(map(canonical_json, values)) if isinstance(values, list) else values


def _expiry_of(claims: Mapping[str, Any]) -> float:
    """When a token ends. One without an end is as good as the identity is: for ever."""
    end = claims.get(_EXPIRY)
    if isinstance(end, int | float) and not isinstance(end, bool):
        return float(end)
    return float("inf")
