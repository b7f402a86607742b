"""Chat histories keep every message in order, whoever appends and whatever dies."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, event

from tests.store.child import Children
from tests.store.server import Server
from wieldy import NotKept, SessionTaken, Toolbox
from wieldy.store.databases.tables import pack_text, unpack

Execute = Callable[[str], str]
HOSTILE = [
    "a\0b",
    "\ud800",
    "' OR 1=1 --",
    "%",
    "\x01x",
    "日本語🎉",
    " ",
    "\n",
    "🎉\0" * 250,
    "ÿ" * 500,
]


async def test_messages_come_back_in_order_as_they_were(url: str) -> None:
    told = [
        {"role": "user", "content": "héllo \0 \ud800"},
        ["list", 1, 2.5, None, True],
        "text",
        0,
        None,
        {},
    ]
    async with Toolbox(store=url) as box:
        assert await box.sessions.append("s", told[0]) == 1
        assert await box.sessions.append("s", *told[1:]) == 6
        assert await box.sessions.append("s") == 6
    async with Toolbox(store=url) as box:
        assert await box.sessions.read("s") == told
        assert await box.sessions.read("s", limit=2) == told[-2:]
        assert await box.sessions.read("s", limit=2, upto=3) == told[1:3]
        assert await box.sessions.read("s", limit=0) == []
        assert await box.sessions.read("s", limit=10**30, upto=10**30) == told
        assert await box.sessions.read("nobody") == []


@pytest.mark.parametrize(
    "message",
    [{1, 2}, object(), float("nan"), float("inf"), b"x", (1, 2), {"a": (1,)}, {1: "a"}, [10**5000]],
)
async def test_what_is_not_json_is_refused_whole(url: str, message: Any) -> None:
    async with Toolbox(store=url) as box:
        with pytest.raises(ValueError, match="message 1 is not JSON and nothing was kept"):
            await box.sessions.append("s", "fine", message)
        assert await box.sessions.read("s") == []
        assert await box.sessions.list() == []


async def test_a_message_nested_without_end_is_refused(url: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    async with Toolbox(store=url) as box:
        for message in (endless, deep):
            with pytest.raises(ValueError, match="is not JSON"):
                await box.sessions.append("s", message)


@pytest.mark.parametrize("session", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_session_may_have_any_name(url: str, session: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def work() -> int:
            """Work."""
            return 1

        await box.sessions.append(session, "mine")
        await box.sessions.append("other", "theirs")
        await box.sessions.fork(session, f"{session[:400]} fork")
        assert await box.sessions.read(session) == ["mine"]
        assert (await box.call("work", session=session)).value == 1
        exported = json.loads(json.dumps(await box.sessions.export(session)))
        assert exported["sessions"][session]["messages"] == ["mine"]
        counts = await box.store.delete_session(session)
        assert (counts["messages"], counts["calls"], counts["open"]) == (1, 1, 0)
        assert {each.id for each in await box.sessions.list()} == {
            "other",
            f"{session[:400]} fork",
        }


@pytest.mark.parametrize("session", ["", "x" * 501])
async def test_a_name_that_is_too_long_or_none_is_refused_at_the_border(
    url: str, session: str
) -> None:
    async with Toolbox(store=url) as box:
        box.add(lambda: 1, name="work")
        with pytest.raises(ValueError, match="a session is text of 1 to 500 characters"):
            await box.sessions.append(session, 1)
        await box.sessions.append("s", 1)
        with pytest.raises(ValueError, match="a session is text of 1 to 500 characters"):
            await box.sessions.fork("s", session)
        if session:
            with pytest.raises(ValueError, match="a session is text of 1 to 500 characters"):
                await box.call("work", session=session)
        assert await box.ledger.list() == []


@given(st.text(alphabet=st.characters(), max_size=500))
def test_packed_text_comes_back_and_fits_an_index(text: str) -> None:
    packed = pack_text(text)
    assert unpack(packed) == text
    assert "\0" not in packed
    assert len(packed.encode()) < 2600


def test_text_packed_before_is_still_read() -> None:
    assert unpack("\x01" + json.dumps("a\0\ud800")) == "a\0\ud800"
    assert unpack("\x01\x02not packed\x7f") == "\x01\x02not packed\x7f"


async def test_a_fork_has_its_own_future(url: str) -> None:
    async with Toolbox(store=url) as box:
        sessions = box.sessions
        await sessions.append("a", *range(10))
        assert await sessions.fork("a", "b", upto=4) == 4
        assert await sessions.fork("a", "c", upto=400) == 10
        assert await sessions.fork("a", "d", upto=0) == 0
        await sessions.append("a", "only a")
        await sessions.append("b", "only b")
        assert await sessions.read("a") == [*range(10), "only a"]
        assert await sessions.read("b") == [0, 1, 2, 3, "only b"]
        assert await sessions.read("c") == [*range(10)]
        assert await sessions.read("d") == []
        assert {each.id: each.messages for each in await sessions.list()} == {
            "a": 11,
            "b": 5,
            "c": 10,
            "d": 0,
        }
        with pytest.raises(SessionTaken, match="'b' already"):
            await sessions.fork("a", "b")
        with pytest.raises(SessionTaken):
            await sessions.fork("a", "a")
        with pytest.raises(NotKept, match="no session 'x'"):
            await sessions.fork("x", "y")
        with pytest.raises(ValueError, match="upto"):
            await sessions.fork("a", "z", upto=-1)
        assert await sessions.read("b") == [0, 1, 2, 3, "only b"]


async def test_of_many_forks_to_one_name_one_is_made(url: str) -> None:
    async with Toolbox(store=url) as box, Toolbox(store=url) as other:
        await box.sessions.append("a", *range(5))
        await box.sessions.append("b", *"xyz")
        forks = [each.sessions.fork(s, "new") for each in (box, other) for s in ("a", "b")]
        answers = await asyncio.gather(*forks, return_exceptions=True)
        assert sorted(type(each).__name__ for each in answers) == ["SessionTaken"] * 3 + ["int"]
        assert await box.sessions.read("new") in ([*range(5)], [*"xyz"])


async def test_ten_thousand_messages_are_appended_read_and_forked(url: str) -> None:
    async with Toolbox(store=url) as box:
        assert await box.sessions.append("s", *({"n": n} for n in range(10_000))) == 10_000
        assert await box.sessions.fork("s", "t") == 10_000
        assert [each["n"] for each in await box.sessions.read("t")] == [*range(10_000)]


async def test_two_processes_that_append_at_once_lose_and_mix_nothing(
    url: str, children: Children
) -> None:
    writers = [children.start() for _ in range(2)]
    for name, writer in enumerate(writers):
        appends = [[[name, n, part] for part in range(3)] for n in range(50)]
        writer.send("append", session="s", appends=appends)
    async with Toolbox(store=url) as box:
        own = [[2, n, part] for n in range(50) for part in range(3)]
        await asyncio.gather(
            *(box.sessions.append("s", *own[n : n + 3]) for n in range(0, len(own), 3))
        )
        positions = [writer.answer()["after"] for writer in writers for _ in range(50)]
        messages = await box.sessions.read("s")
    assert len(messages) == 450
    assert len(set(positions)) == 100
    together = [messages[n : n + 3] for n in range(0, 450, 3)]
    assert all(
        part == [[*first[:2], n] for n in range(3)] for part in together for first in part[:1]
    )
    for name in range(2):
        assert [m[1] for m in messages if m[0] == name and m[2] == 0] == [*range(50)]


async def test_a_killed_process_leaves_whole_appends_and_all_it_acknowledged(
    url: str, children: Children
) -> None:
    writer = children.start()
    appends = [[[n, part] for part in range(20)] for n in range(10_000)]
    writer.send("append", session="s", appends=appends)
    acknowledged = [writer.answer()["after"] for _ in range(10)][-1]
    writer.kill()
    acknowledged = max([acknowledged, *(each["after"] for each in writer.rest())])
    async with Toolbox(store=url) as box:
        messages = await box.sessions.read("s")
        assert len(messages) >= acknowledged
        assert len(messages) < 200_000
        assert messages == [[n, part] for n in range(len(messages) // 20) for part in range(20)]
        assert await box.sessions.append("s", "more") == len(messages) + 1


async def test_appends_over_lost_connections_are_done_once_each(server: Server) -> None:
    async with Toolbox(store=server.new_database()) as box:
        progress, done = asyncio.Event(), False

        async def cut() -> None:
            while not done:
                # Once for each that got through: a connection that never holds is another story.
                await progress.wait()
                progress.clear()
                await asyncio.to_thread(server.disconnect)

        cutting = asyncio.ensure_future(cut())
        for n in range(100):
            await box.sessions.append("s", n, n)
            progress.set()
        done = True
        progress.set()
        await cutting
        assert await box.sessions.read("s") == [n for n in range(100) for _ in range(2)]


async def test_a_commit_that_nobody_heard_of_is_not_made_again(server: Server) -> None:
    async with Toolbox(store=server.new_database()) as box:
        await box.sessions.append("s", 0)
        lost: list[str] = []

        def lose(connection: Connection) -> None:
            if len(lost) % 2 == 0:
                lost.append("answer")
                connection.connection.commit()
                raise ConnectionResetError("the answer was lost")
            lost.append("nothing")

        event.listen(Engine, "commit", lose)
        try:
            assert await box.sessions.append("s", 1, 2) == 3
            assert await box.sessions.fork("s", "t") == 3
            assert await box.sessions.delete("t") is True
        finally:
            event.remove(Engine, "commit", lose)
        assert lost.count("answer") == 3
        assert await box.sessions.read("s") == [0, 1, 2]


async def test_appends_beside_one_that_fails_are_done_once_each(url: str) -> None:
    async with Toolbox(store=url) as box:
        await box.sessions.append("s", -1)
        appends = [box.sessions.append("s", n) for n in range(20)]
        forks = [box.sessions.fork("s", "s") for _ in range(20)]
        mixed = [each for pair in zip(appends, forks, strict=True) for each in pair]
        answers = await asyncio.gather(*mixed, return_exceptions=True)
        assert answers[::2] == [*range(2, 22)]
        assert all(isinstance(each, SessionTaken) for each in answers[1::2])
        assert await box.sessions.read("s") == [*range(-1, 20)]


async def test_a_deleted_session_is_gone_and_may_begin_anew(url: str) -> None:
    async with Toolbox(store=url) as box:
        await box.sessions.append("s", 1, 2)
        await box.sessions.append("t", 3)
        assert await box.sessions.delete("s") is True
        assert await box.sessions.delete("s") is False
        assert await box.sessions.read("s") == []
        assert [each.id for each in await box.sessions.list()] == ["t"]
        assert await box.sessions.append("s", 4) == 1
        assert await box.sessions.read("s") == [4]


async def test_sessions_move_between_stores_as_json(
    url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = f"sqlite:///{tmp_path_factory.mktemp('elsewhere')}/store.db"
    async with Toolbox(store=url) as box, Toolbox(store=elsewhere) as other:
        await box.sessions.append("a", {"role": "user"}, "\0\ud800")
        await box.sessions.append("b")
        exported = json.loads(json.dumps(await box.sessions.export()))
        assert exported["version"] == 1
        assert await other.sessions.load(exported) == 2
        assert await other.sessions.export() == exported
        with pytest.raises(NotKept):
            await box.sessions.export("c")
        del exported["sessions"]["b"]
        exported["sessions"]["0"] = {"messages": [1]}
        with pytest.raises(SessionTaken, match="'a'"):
            await other.sessions.load(exported)
        assert await other.sessions.read("0") == []


GOOD = {"format": "wieldy.sessions", "version": 1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "format must be"),
        ({}, "format must be"),
        ({**GOOD, "version": 2}, "version must be 1, not 2"),
        (GOOD, "sessions must be an object"),
        ({**GOOD, "sessions": {"a": []}}, r"sessions\['a'\].messages must be a list"),
        (
            {**GOOD, "sessions": {"": {"messages": []}}},
            r"sessions\[''\]: a session is text of 1 to",
        ),
        ({**GOOD, "sessions": {"a": {"messages": [1, {2}]}}}, r"sessions\['a'\].messages\[1\]"),
        (
            {**GOOD, "sessions": {"a": {"messages": [], "created_at": "now"}}},
            r"sessions\['a'\].created_at must be a number",
        ),
    ],
)
async def test_an_import_says_what_is_wrong_and_keeps_nothing(
    url: str, data: Any, said: str
) -> None:
    async with Toolbox(store=url) as box:
        if isinstance(data, dict) and isinstance(data.get("sessions"), dict):
            data = {**data, "sessions": {"fine": {"messages": [1]}, **data["sessions"]}}
        with pytest.raises(ValueError, match=said):
            await box.sessions.load(data)
        assert await box.sessions.list() == []


async def test_without_a_store_there_are_no_sessions() -> None:
    with pytest.raises(Exception, match=r"Toolbox\(store="):
        await Toolbox().sessions.read("s")


async def test_an_append_of_the_same_name_is_done_once(url: str) -> None:
    async with Toolbox(store=url) as box:
        assert await box.sessions.append("s", 1, 2, once="turn") == 2
        await box.sessions.append("s", 3)
        assert await box.sessions.append("s", 1, 2, once="turn") == 2
        assert await box.sessions.append("t", 1, 2, once="turn") == 2
        assert await box.sessions.read("s") == [1, 2, 3]
        with pytest.raises(ValueError, match="once"):
            await box.sessions.append("s", 4, once="x" * 33)
