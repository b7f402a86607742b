"""What a toolbox is made with: its settings checked, its lock read, its store opened."""

from os import PathLike
from typing import TYPE_CHECKING

from wieldy.core.holdings import Holdings
from wieldy.core.limits.model_results import ModelResults
from wieldy.core.registry import Registry
from wieldy.core.tool import VALIDATIONS, Review
from wieldy.store.retention import Retention

if TYPE_CHECKING:
    from wieldy.core.call import Outcome
    from wieldy.core.limits.model_results import Keep
    from wieldy.core.limits.result_size import Spill
    from wieldy.store.store import Store


def check_settings(
    validation: str,
    approval_ttl: float | None,
    retention: Retention | None,
    threads: int,
    processes: int | None,
) -> None:
    """Refuse settings of a toolbox that can't be used."""
    if validation not in VALIDATIONS:
        raise ValueError(f"validation must be one of {', '.join(VALIDATIONS)}")
    if approval_ttl is not None and not approval_ttl > 0:
        raise ValueError(f"approval_ttl must be seconds above 0, not {approval_ttl!r}")
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads!r}")
    if processes is not None and processes < 1:
        raise ValueError(f"processes must be 1 or more, not {processes!r}")
    if not isinstance(retention, Retention | None):
        raise TypeError(f"retention takes a Retention(days=…), not {retention!r}")


def find_review(lock: str | PathLike[str] | None, on_change: str) -> Review | None:
    """What reviews definitions against the lock; None without a lock."""
    if lock is None:
        if on_change != "block":
            raise ValueError('on_change says what a lock does: pass lock="tools.lock" as well')
        return None
    # Imported only when there is a lock, to keep `import wieldy` light.
    from wieldy.lock.lock_review import LockReview  # noqa: PLC0415

    return LockReview(lock, on_change)


def open_store(
    url: str, registry: Registry, durability: str, retention: Retention | None, held: Holdings
) -> "Store":
    """Open the store of a toolbox, which closes with it."""
    # SQLAlchemy is imported only when there is a store.
    from wieldy.store.store import Store  # noqa: PLC0415

    store = Store(url, registry, durability, retention or Retention())
    store.held_by(held)
    return store


def open_results(
    registry: Registry, max_result: int, spill: "Spill | None", kept: "Store | None"
) -> "tuple[ModelResults, Spill | None]":
    """What models read of results, and what keeps a result that a tool's own limit cuts."""
    if kept is None:
        return ModelResults(registry, max_result, spill and _keep_with(spill)), spill
    artifacts = kept.artifacts

    async def keep(outcome: "Outcome", whole: str) -> str:
        untrusted = bool(outcome.metadata.get("untrusted"))
        return await artifacts.spill(outcome.call, whole, untrusted=untrusted)

    kept_by = keep if spill is None else _keep_with(spill)
    return ModelResults(registry, max_result, kept_by, artifacts.open), spill or artifacts.spill


def _keep_with(spill: "Spill") -> "Keep":
    return lambda outcome, whole: spill(outcome.call, whole)
