"""Messages over pipes: in pieces of any size, among garbage, and from senders that leave."""

import asyncio
import json
import os
import threading
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from wieldy.mcp.client.process_pipe import Incoming, Outgoing, read_message
from wieldy.mcp.client.request_extras import RequestExtras, current_errand

PLAIN = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)
GARBAGE = st.binary(max_size=20).map(lambda data: data.replace(b"\n", b" "))


def encoded(text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "m", "params": {"text": text}}).encode()


async def received(chunks: list[bytes]) -> list[str]:
    """What comes out of a pipe into which a thread writes these pieces."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)

    def write() -> None:
        for chunk in chunks:
            os.write(theirs, chunk)
        os.close(theirs)

    lost: list[str] = []
    incoming = Incoming(ours, lost.append)
    writer = threading.Thread(target=write)
    writer.start()
    found: list[str] = []
    async for item in incoming:
        assert isinstance(item, SessionMessage)
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.params:
            found.append(message.params["text"])
    incoming.close()
    writer.join()
    os.close(ours)
    assert lost == ["it closed its stdout"]
    return found


async def test_a_server_that_writes_large_messages_waits_for_its_reader() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    line = encoded("x" * 1_000_000) + b"\n"
    written: list[int] = []

    def write() -> None:
        for _ in range(60):
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(theirs, rest) :]
            written.append(len(line))
        os.close(theirs)

    incoming = Incoming(ours, lambda reason: None)
    writer = threading.Thread(target=write)
    writer.start()
    # It takes less than this to write all of it, if nobody stops the writer.
    await asyncio.to_thread(writer.join, 1)
    assert sum(written) < 20_000_000
    assert len([item async for item in incoming]) == 60
    incoming.close()
    writer.join()
    os.close(ours)


@settings(deadline=None, max_examples=60)
@given(st.lists(PLAIN, max_size=8), st.lists(GARBAGE, max_size=4), st.data())
def test_messages_come_out_as_they_went_in_whatever_the_pieces(
    texts: list[str], garbage: list[bytes], data: st.DataObject
) -> None:
    lines = [encoded(text) for text in texts]
    for piece in garbage:
        # What looks like a message is one; this is about what does not.
        lines.insert(data.draw(st.integers(0, len(lines))), b"#" + piece)
    stream = b"".join(
        line + data.draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])) for line in lines
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]

    assert asyncio.run(received(chunks)) == texts


@given(st.binary(max_size=200))
def test_no_line_is_too_odd_to_be_looked_at(line: bytes) -> None:
    read_message(line)


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "result": {', 7),
        (b'{"jsonrpc":"2.0","result":"\xff","id":"q1"', "q1"),
    ],
)
def test_a_torn_answer_is_an_error_for_whoever_waits(line: bytes, answered: Any) -> None:
    message = read_message(line)

    assert isinstance(message, types.JSONRPCError)
    assert message.id == answered


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'{"id": 7}',
        b'{"jsonrpc": "2.0", "method": "m", "id": 7,',
        b"[" * 100_000,
    ],
)
def test_what_answers_nothing_is_no_message(line: bytes) -> None:
    assert read_message(line) is None


async def test_a_sender_that_leaves_does_not_tear_its_message() -> None:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    outgoing = Outgoing(ours, lambda reason: None)
    sizes = [10, 300_000, 5, 200_000, 7]
    errands = [RequestExtras() for _ in sizes]

    async def send(size: int, errand: RequestExtras) -> None:
        current_errand.set(errand)
        note = types.JSONRPCNotification(jsonrpc="2.0", method="m", params={"text": "x" * size})
        await outgoing.send(SessionMessage(note))

    senders = [asyncio.create_task(send(*pair)) for pair in zip(sizes, errands, strict=True)]
    done, waiting = await asyncio.wait(senders, timeout=0.05)
    assert len(done) == 1 and waiting
    assert [errand.sent for errand in errands] == [True, False, False, False, False]
    senders[1].cancel()

    def read() -> bytes:
        with os.fdopen(theirs, "rb") as pipe:
            return pipe.read()

    reading = asyncio.create_task(asyncio.to_thread(read))
    await asyncio.wait(senders)
    outgoing.close()
    os.close(ours)
    lines = (await reading).splitlines()

    assert [len(json.loads(line)["params"]["text"]) for line in lines] == sizes
    assert [errand.sent for errand in errands] == [True, False, True, True, True]
