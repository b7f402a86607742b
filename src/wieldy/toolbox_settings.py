"""What a toolbox is made with: its settings checked, its lock read, its store opened."""

from os import PathLike
from typing import TYPE_CHECKING

from wieldy.core.holdings import Holdings
from wieldy.core.registry import Registry
from wieldy.core.tool import VALIDATIONS, Review
from wieldy.store.retention import Retention

if TYPE_CHECKING:
    from wieldy.core.call import Outcome
    from wieldy.core.limits.model_results import Keep, Open
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


def find_result_places(
    spill: "Spill | None", kept: "Store | None"
) -> "tuple[Keep | None, Open | None]":
    """Where the rest of a large result is kept, and where it is read again."""

    async def keep(outcome: "Outcome", whole: str) -> str:
        if spill is not None:
            return await spill(outcome.call, whole)
        assert kept is not None
        untrusted = bool(outcome.metadata.get("untrusted"))
        return await kept.artifacts.spill(outcome.call, whole, untrusted=untrusted)

    return (
        None if kept is None and spill is None else keep,
        None if kept is None else kept.artifacts.open,
    )
