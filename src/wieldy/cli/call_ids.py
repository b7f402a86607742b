"""Find the call that an id on the command line names, in full or by its beginning."""

import re
from typing import TYPE_CHECKING

from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names

if TYPE_CHECKING:
    from wieldy.store.ledger_entry import Entry
    from wieldy.store.store import Store

# Current ids all have the same length. Earlier ids had a counter without leading zeros, so one
# id could be the beginning of another.
_OWN = re.compile("call_[0-9a-f]{12}_[0-9]{12}|task_[0-9a-f]{25}")
_BEFORE = re.compile("call_[0-9a-f]{12}_[1-9][0-9]*")
_NEAR_AMONG = 1000


class CallIdError(WieldyError):
    """The id names no call, or is the beginning of several ids."""


async def find_entry(store: "Store", given: str, listing: str) -> "Entry":
    """The call with this id, or with the only id in the ledger that begins with it.

    `listing` is the command that lists the possible ids, for the error message.
    """
    ledger = store.ledger
    if not given:
        raise CallIdError(f"An id is missing. {listing} lists the calls.")
    entry = await ledger.get(given)
    if entry is not None:
        return entry
    begun = await ledger.ids(given, limit=4)
    if len(begun) > 1:
        raise CallIdError(
            f"More than one id begins with {given!r}, such as {', '.join(begun[:3])}."
        )
    if begun and _is_abbreviation(given, begun[0]):
        entry = await ledger.get(begun[0])
    if entry is None:
        hint = begun or find_near_names(given, await ledger.ids(limit=_NEAR_AMONG))
        there = f"Did you mean {' or '.join(hint)}?" if hint else f"{listing} lists the calls."
        raise CallIdError(f"There is no call {given!r} in {store.address}. {there}")
    return entry


def _is_abbreviation(given: str, call_id: str) -> bool:
    """Whether the text abbreviates this id and can't be a complete id of another call."""
    if _BEFORE.fullmatch(given):
        return False
    if _OWN.fullmatch(call_id) or _BEFORE.fullmatch(call_id):
        return True
    # A program that numbers its calls may have both order-1 and order-12.
    return not (given[-1].isnumeric() and call_id[len(given)].isnumeric())
