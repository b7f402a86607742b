"""A call is one call, whoever asks for its id, and however often it is copied."""

import copy
import pickle
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from wieldy import Call
from wieldy.core import call as call_module


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda call: pickle.loads(pickle.dumps(call))]
)
def test_a_copy_is_the_same_call(copied: Callable[[Call], Call]) -> None:
    call = Call("act", {"n": 1}, provider_id="theirs", idempotency_key="key")
    twin = copied(call)
    assert twin.id == call.id
    assert (twin.tool, twin.arguments, twin.provider_id) == ("act", {"n": 1}, "theirs")
    assert (twin.scope.agent, twin.decision, twin.idempotency_key) == (None, None, "key")


def test_whoever_asks_for_an_id_while_one_is_made_gets_it_at_once(bounded: None) -> None:
    """As the handler of a signal does, which may come while the ids are held."""
    call = Call("act")
    seen: set[str] = set()

    def ask(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename == call_module.__file__ and frame.f_code.co_name == "give":
            seen.update((call.id, Call("other").id))
            return ask
        return None

    before = sys.gettrace()
    sys.settrace(ask)
    try:
        made = call.id
    finally:
        sys.settrace(before)
    assert made == call.id
    assert made in seen
    assert len(seen) > 3
