"""What every provider's answer to a call has in common."""

import json
from typing import Any

import pytest

from wieldy import Call, Outcome, Status
from wieldy.core.block import Image, Resource, Text
from wieldy.core.errors import CallError
from wieldy.wire import anthropic, gemini, mcp, openai, openai_responses

FORMATS = [openai, openai_responses, anthropic, gemini, mcp]


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.__name__)
def test_a_lone_surrogate_is_replaced_in_what_is_sent(wire: Any) -> None:
    call = Call("find", {})
    value = {"k\ud800": ["a\udc00b", "\U0001f600"]}
    shown = (Text("x\ud83dy"), Resource("file:///a\ud800", text="t\udfff"))
    outcomes = [
        Outcome(call, Status.OK, value=value, content=(Text(json.dumps(value)),)),
        Outcome(Call("find", {}), Status.OK, value=None, content=shown),
        Outcome(Call("find", {}), Status.ERROR, error=CallError("bad \ud800")),
    ]

    sent = json.dumps(wire.render(outcomes), ensure_ascii=False)

    sent.encode("utf-8")
    assert "x\ufffdy" in sent and "t\ufffd" in sent and "bad \ufffd" in sent


@pytest.mark.parametrize("wire", [openai, openai_responses, anthropic, gemini])
def test_a_picture_of_a_kind_that_no_model_sees_is_told_in_words(wire: Any) -> None:
    shown = (Image(b"<svg/>", "image/svg+xml"),)
    outcome = Outcome(Call("draw", {}), Status.OK, value=None, content=shown)

    sent = json.dumps(wire.render([outcome]))

    assert "[image, image/svg+xml, 6 bytes, not shown]" in sent
    assert "PHN2Zy8+" not in sent
