"""What a call that waited owes to the claims of its caller's token, compared before it runs."""

from collections.abc import Mapping
from typing import Protocol

from wieldy.core.active_call import ActiveCall
from wieldy.core.call import Scope
from wieldy.core.tool import Tool


class CallerClaims(Protocol):
    """The claims of callers, of which only digests are given."""

    def digests(self, tool: Tool, scope: Scope) -> Mapping[str, str]:
        """The digests, by name, of the claims that a call of this tool depends on."""

    def find_changed(self, scope: Scope, kept: Mapping[str, str]) -> str | None:
        """The name of a claim that is another one by now; None if each is as it was kept."""


def kept_digests(claims: CallerClaims | None, active: ActiveCall) -> Mapping[str, str]:
    """What to keep with a call that waits: those that it was first made with."""
    decision = active.call.decision
    if decision is not None:
        return decision.claims
    return {} if claims is None else claims.digests(active.tool, active.call.scope)


def find_changed_claim(claims: CallerClaims | None, active: ActiveCall) -> str | None:
    """Why a call that waited must not run as its caller is by now; None if it may."""
    decision = active.call.decision
    if claims is None or decision is None or not decision.claims:
        return None
    changed = claims.find_changed(active.call.scope, decision.claims)
    if changed is None:
        return None
    return f"the claim {changed} of its caller is not what it was when the call was made"
