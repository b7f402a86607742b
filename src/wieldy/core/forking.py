"""Prepare our objects for a fork of the process: a child has none of its parent's threads."""

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def at_fork(
    in_child: Callable[[], Any],
    before: Callable[[], Any] | None = None,
    in_parent: Callable[[], Any] | None = None,
) -> None:
    """Run functions around each fork of this process, on systems that can fork."""
    if hasattr(os, "register_at_fork"):
        given = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
        os.register_at_fork(**{when: action for when, action in given.items() if action})


def renewed_in_child(renew: Callable[[T], Any]) -> "weakref.WeakSet[T]":
    """A set for objects that a forked child makes usable again, as long as there are any.

    Args:
        renew: What a child does with each object that is in the set.
    """
    members: weakref.WeakSet[T] = weakref.WeakSet()

    def renew_all() -> None:
        for member in list(members):
            renew(member)

    at_fork(renew_all)
    return members
