"""Requests over real HTTP: what comes back, what goes wrong, and when it is tried again."""

import asyncio
import itertools
import json
import threading
from typing import Any

import pytest

from tests.models.conftest import KEY, Make
from tests.models.server import ModelServer, Scene
from tests.models.voices import VOICES, Calls, Voice, pieces_of
from wieldy import (
    ContextTooLong,
    ModelAnswerTooLarge,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    Toolbox,
)
from wieldy.models import (
    Answers,
    Model,
    ModelEvent,
    ModelRequest,
    Reply,
    Said,
    Turn,
    close_connections,
)
from wieldy.wire.stream_events import TextDelta, Usage

TEXT = "Grüße aus Tromsø: 🌞🌧 und „Schnee“."
CALLS: Calls = [("weather", {"city": "Tromsø 🌞", "days": 2}), ("weather", {"city": "Bodø"})]


def ask(text: str = "Hello", tools: Toolbox | None = None) -> ModelRequest:
    return ModelRequest([Said("system", "Be brief."), Said("user", text)], tools)


async def read(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or ask())]


async def reply_of(model: Model, request: ModelRequest | None = None) -> Reply:
    last = (await read(model, request))[-1]
    assert isinstance(last, Reply)
    return last


def whole(voice: Voice, text: str = "Hello there.") -> Scene:
    return Scene([voice.speak(text)])


@pytest.mark.parametrize("size", [1, 3, 7, 100_000])
async def test_an_answer_in_pieces_of_any_size_is_the_same(
    server: ModelServer, voice: Voice, make: Make, box: Toolbox, size: int
) -> None:
    answer = voice.speak(TEXT, CALLS, thinking="Hm … 🤔")
    server.play(Scene(pieces_of(answer, size)))

    events = await read(make(), ask(tools=box))

    reply = events[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.thinking) == (TEXT, "Hm … 🤔")
    assert [(call.tool, call.arguments) for call in reply.calls] == CALLS
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == TEXT
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (12, 3)
    assert isinstance([each for each in events if isinstance(each, Usage)][-1], Usage)
    assert reply.finish_reason


async def test_the_body_is_the_one_that_was_rendered_and_the_key_is_in_its_header(
    server: ModelServer, voice: Voice, make: Make, box: Toolbox
) -> None:
    server.play(whole(voice))
    model = make(options={"temperature": 0.5})
    request = ModelRequest([Said("user", "Hi")], box, {"max_tokens": 50, "stop": ["END"]})

    await reply_of(model, request)

    [asked] = server.asked
    assert asked.body == json.loads(json.dumps(model.render(request)))
    assert asked.path == voice.path
    assert KEY in asked.headers[voice.key_header]


async def test_half_a_character_does_not_keep_a_request_from_being_sent(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(whole(voice))
    await reply_of(make(), ask("half: \ud83c"))
    assert "half: \ufffd" in json.dumps(server.asked[0].body, ensure_ascii=False)


async def test_a_model_s_message_goes_back_as_it_came(
    server: ModelServer, voice: Voice, make: Make, box: Toolbox
) -> None:
    server.play(Scene([voice.speak("Let me look.", CALLS, thinking="Hm.")]), whole(voice))
    model = make()
    first = await reply_of(model, ask(tools=box))
    outcomes = await box.call_many(list(first.calls))
    turns: list[Turn] = [Said("user", "Hello"), first, Answers(outcomes, first.calls)]

    await reply_of(model, ModelRequest(turns, box))

    body = server.asked[1].body
    sent = body.get("messages") or body.get("input") or body["contents"]
    raw = first.raw if isinstance(first.raw, list) else [first.raw]
    assert sent[1 : 1 + len(raw)] == json.loads(json.dumps(raw))
    kept = {"openai": "reasoning_content", "gemini": "s/+="}.get(voice.name, "s==")
    assert kept in json.dumps(raw)
    assert "sunny for 2" in json.dumps(sent[1 + len(raw) :])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_status_that_passes_is_tried_again(
    server: ModelServer, voice: Voice, make: Make, status: int
) -> None:
    busy = Scene([b'{"error": {"message": "busy"}}'], status, {"Retry-After": "0"})
    server.play(busy, busy, whole(voice))
    reply = await reply_of(make(retries=2))
    assert reply.text == "Hello there."
    assert len(server.asked) == 3


async def test_tries_come_to_an_end_with_the_provider_s_words(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    body = json.dumps({"error": {"message": f"too busy for {KEY}"}}).encode()
    server.play(Scene([body], 503, {"Retry-After": "0", "Content-Type": "application/json"}))
    with pytest.raises(ModelUnavailable, match="too busy for") as caught:
        await read(make(retries=1))
    assert caught.value.status == 503
    assert KEY not in f"{caught.value} {caught.value!r}"
    # An exception of an SDK holds the request, with the key in its headers.
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(server.asked) == 2


async def test_a_provider_that_wants_a_long_rest_is_left_alone(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([b"{}"], 429, {"Retry-After": "3600"}))
    with pytest.raises(ModelUnavailable) as caught:
        await read(make(retries=5))
    assert caught.value.retry_after == 3600
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422, 307])
async def test_a_request_that_is_refused_is_not_tried_again(
    server: ModelServer, voice: Voice, make: Make, status: int
) -> None:
    body = json.dumps({"error": {"message": "not like this"}}).encode()
    server.play(Scene([body], status, {"Location": "http://127.0.0.1:9/", "Retry-After": "0"}))
    with pytest.raises(ModelRefused, match="not like this") as caught:
        await read(make(retries=3))
    assert caught.value.status == status
    assert len(server.asked) == 1


async def test_a_context_that_the_provider_finds_too_long_says_by_how_much(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    message = "prompt is too long: 212,345 tokens > 200,000 maximum"
    body = json.dumps({"error": {"message": message}}).encode()
    server.play(Scene([body], 400, {"Content-Type": "application/json"}))
    with pytest.raises(ContextTooLong, match="prompt is too long") as caught:
        await read(make())
    assert caught.value.excess == 12_345


async def test_an_error_in_mid_stream_is_not_tried_again(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.speak("Half an", end=False), voice.error]))
    seen: list[ModelEvent] = []
    with pytest.raises(ModelUnavailable, match="The server had an error") as caught:
        async for event in make(retries=3).stream(ask()):
            seen.append(event)  # noqa: PERF401 - the events count that came before the error
    assert caught.value.began
    assert "".join(each.text for each in seen if isinstance(each, TextDelta)) == "Half an"
    assert len(server.asked) == 1


async def test_an_error_before_the_first_delta_is_tried_again(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.error]), whole(voice))
    events = await read(make(retries=1))
    assert isinstance(events[-1], Reply) and events[-1].text == "Hello there."


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_an_answer_without_its_end_is_an_error(
    server: ModelServer, voice: Voice, make: Make, then: str
) -> None:
    server.play(Scene([voice.speak("Half an", end=False)], then=then))
    with pytest.raises(ModelUnavailable) as caught:
        await read(make())
    assert caught.value.began


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_nothing_at_all_is_an_error(
    server: ModelServer, voice: Voice, make: Make, then: str
) -> None:
    server.play(Scene([], then=then))
    with pytest.raises(ModelUnavailable) as caught:
        await read(make())
    assert not caught.value.began


@pytest.mark.parametrize("garbage", [b'data: {"choices": [{"ind\n\n', b"data: \xff\xfe{}\n\n"])
async def test_what_can_t_be_read_is_an_error(
    server: ModelServer, voice: Voice, make: Make, garbage: bytes
) -> None:
    named = b"event: message_start\n" if voice.name == "anthropic" else b""
    server.play(Scene([voice.speak("Half", end=False), named + garbage]))
    with pytest.raises(ModelUnavailable) as caught:
        await read(make())
    assert caught.value.began


@pytest.mark.parametrize(
    "data", [b"data: 17\n\n", b'data: {"choices": 3, "candidates": "x"}\n\n', b"data: []\n\n"]
)
async def test_a_chunk_of_another_shape_says_nothing(
    server: ModelServer, voice: Voice, make: Make, data: bytes
) -> None:
    named = b"event: message_start\n" if voice.name == "anthropic" else b""
    server.play(Scene([named + data, voice.speak("Hello there.")]))
    assert (await reply_of(make())).text == "Hello there."


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_a_page_instead_of_a_stream_names_its_kind_and_the_address_to_check(
    server: ModelServer, voice: Voice, make: Make, kind: str
) -> None:
    page = b"<html>Welcome!</html>" if kind == "text/html" else b'{"welcome": true}'
    server.play(Scene([page], headers={"Content-Type": kind}))
    with pytest.raises(ModelError, match=r"base_url|JSON") as caught:
        await read(make())
    assert "elcome" in str(caught.value)


async def test_a_stream_under_another_name_is_read(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.speak("Hello there.")], headers={"Content-Type": "text/plain"}))
    assert (await reply_of(make())).text == "Hello there."


async def test_an_endless_answer_ends_at_its_limit(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.more * 20], then="repeat"))
    with pytest.raises(ModelAnswerTooLarge, match="larger than 5,000 bytes"):
        await read(make(max_answer=5_000))
    assert server.left.wait(120)


@pytest.mark.parametrize("arguments", [{}, {"text": "x" * 6_000}])
async def test_endless_calls_end_at_the_limit_too(
    server: ModelServer, voice: Voice, make: Make, arguments: dict[str, Any]
) -> None:
    calls = [("weather", arguments)] * 60
    server.play(Scene([voice.speak(calls=calls)]))
    with pytest.raises(ModelAnswerTooLarge):
        await read(make(max_answer=5_000))


async def test_an_endless_error_is_read_as_far_as_it_is_needed(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([b"no " * 10_000], 400, {"Content-Type": "text/html"}, then="repeat"))
    with pytest.raises(ModelRefused, match="400"):
        await read(make())
    assert server.left.wait(120)


async def test_an_endless_line_ends_at_a_limit_too(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([b"data: " + b"x" * 65536], then="repeat"))
    with pytest.raises(ModelAnswerTooLarge):
        await read(make(max_answer=5_000))
    assert server.left.wait(120)


async def test_an_answer_that_is_compressed_is_refused(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    headers = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    server.play(Scene([b"x"], headers=headers))
    with pytest.raises(ModelRefused, match="gzip"):
        await read(make())
    assert server.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("begins", [True, False])
async def test_silence_is_bounded_and_not_asked_for_twice(
    server: ModelServer, voice: Voice, make: Make, begins: bool
) -> None:
    server.play(Scene([voice.more] if begins else [], then="hang"))
    with pytest.raises(ModelUnavailable, match=r"for 0\.2 s") as caught:
        await read(make(silence=0.2, retries=3))
    assert caught.value.began == begins
    assert len(server.asked) == 1
    assert server.left.wait(120)


async def test_signs_of_life_are_no_answer(server: ModelServer, voice: Voice, make: Make) -> None:
    server.play(Scene([voice.idle], then="repeat"))
    with pytest.raises(ModelUnavailable, match=r"for 0\.2 s"):
        await read(make(silence=0.2))


async def test_an_answer_that_takes_too_long_as_a_whole_is_ended(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.more], then="hang"))
    with pytest.raises(ModelUnavailable, match=r"not whole after 0\.2 s") as caught:
        await read(make(timeout=0.2))
    assert caught.value.began
    assert server.left.wait(120)


async def test_a_reader_who_is_cancelled_ends_the_request(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.more], then="hang"))
    begun = asyncio.Event()

    async def listen() -> None:
        async for _ in make().stream(ask()):
            begun.set()

    listening = asyncio.create_task(listen())
    await asyncio.wait_for(begun.wait(), 120)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert await asyncio.to_thread(server.left.wait, 120)


async def test_a_reader_who_stops_ends_the_request(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(Scene([voice.more], then="hang"))
    stream: Any = make().stream(ask())
    assert isinstance(await anext(stream), TextDelta)
    await stream.aclose()
    assert await asyncio.to_thread(server.left.wait, 120)


async def test_a_server_that_is_not_there_is_tried_again_and_named(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    model = make(retries=1)
    server.stop()
    try:
        with pytest.raises(ModelUnavailable, match=rf"onnect.*\({server.url}{voice.base}\)"):
            await read(model)
    finally:
        server.start()


def test_two_loops_one_after_the_other_share_a_connection(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(whole(voice))
    model = make()
    assert [asyncio.run(reply_of(model)).text for _ in range(3)] == ["Hello there."] * 3
    assert server.connections == 1


def test_callers_in_threads_share_the_connections(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(whole(voice))
    model = make(connections=4)
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(asyncio.run(reply_of(model)).text))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert texts == ["Hello there."] * 12
    assert server.connections <= 4


@pytest.mark.parametrize(
    ("voice", "times"), [(VOICES[0], 1000), *((each, 100) for each in VOICES[1:])], ids=str
)
async def test_a_thousand_requests_at_once_share_one_pool(
    server: ModelServer, voice: Voice, make: Make, times: int
) -> None:
    server.play(whole(voice))
    models = [make(connections=20) for _ in range(10)]
    asked = itertools.islice(itertools.cycle(models), times)
    replies = await asyncio.gather(*(reply_of(model) for model in asked))
    assert {reply.text for reply in replies} == {"Hello there."}
    assert len(server.asked) == times
    assert server.connections <= 20


@pytest.mark.parametrize("voice", VOICES[:1], ids=str)
async def test_very_many_keys_don_t_keep_their_connections(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(whole(voice))
    for number in range(60):
        await reply_of(make(api_key=f"the key of person {number}"))
    assert server.connections == 60
    assert await asyncio.to_thread(server.wait_until_open, 50)
    assert (await reply_of(make(api_key="the key of person 0"))).text == "Hello there."


@pytest.mark.parametrize("value", [object(), float("nan")])
async def test_a_request_that_can_t_be_written_is_refused(
    server: ModelServer, voice: Voice, make: Make, value: object
) -> None:
    server.play(whole(voice))
    with pytest.raises(ModelRefused, match="can't be written"):
        await read(make(options={"seed": value}))
    assert server.asked == []


async def test_two_requests_don_t_mix(server: ModelServer, voice: Voice, make: Make) -> None:
    def echo(asked: Any) -> Scene:
        number = next(word for word in json.dumps(asked.body).split() if word.startswith("n="))
        return Scene(pieces_of(voice.speak(f"You said {number.strip('}],')}"), 5))

    server.play(echo)
    model = make()
    replies = await asyncio.gather(*(reply_of(model, ask(f"say n={i} .")) for i in range(20)))
    assert [reply.text for reply in replies] == [f"You said n={i}" for i in range(20)]


async def test_connections_can_be_closed_and_are_opened_again(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    server.play(whole(voice))
    await reply_of(make())
    await close_connections()
    assert (await reply_of(make())).text == "Hello there."
    assert server.connections == 2


async def test_a_request_longer_than_the_context_is_not_sent(
    server: ModelServer, voice: Voice, make: Make
) -> None:
    with pytest.raises(ContextTooLong, match="estimate"):
        await read(make(context_window=50), ask("word " * 1000))
    assert server.asked == []
