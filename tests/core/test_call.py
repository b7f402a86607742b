"""A call is one call, whoever asks for its id, and however often it is copied."""

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def test_no_id_is_the_beginning_of_another() -> None:
    made = [Call("act").id for _ in range(1200)]
    assert len(set(made)) == 1200
    assert {len(call_id) for call_id in made} == {len("call_0123456789ab_000000000001")}
    assert sorted(made) == made


def test_ids_stay_of_one_length_when_the_counter_has_run_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_module, "_DIGITS", 1)
    ids = call_module._Ids()
    with ThreadPoolExecutor(8) as threads:
        given = threads.map(lambda _: ids.give(Call("act"))[0], range(2000))
    made = list(given)
    assert len(set(made)) == 2000
    assert {len(call_id) for call_id in made} == {len("call_0123456789ab_1")}


def test_whoever_asks_for_an_id_while_one_is_made_gets_it_at_once() -> None:
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
