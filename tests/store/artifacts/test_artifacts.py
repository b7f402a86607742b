"""Documents of a session: every version stays, and no change is lost."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.child import Children, eventually
from tests.store.conftest import Execute
from tests.store.server import Server
from wieldy import (
    ArtifactNotFound,
    ArtifactTaken,
    PassageNotFound,
    PassageRepeated,
    StoreError,
    Toolbox,
    VersionConflict,
)
from wieldy.core.limits.handles import format_handle, parse_handle
from wieldy.store.artifacts.artifact import Artifact, ArtifactEdit, Version
from wieldy.store.artifacts.artifacts import Artifacts
from wieldy.store.databases.tables import metadata


@pytest.fixture
async def artifacts(url: str) -> AsyncIterator[Artifacts]:
    async with Toolbox(store=url) as box:
        yield box.artifacts


async def test_an_artifact_is_read_as_it_was_made(artifacts: Artifacts) -> None:
    made = await artifacts.create("notes", "one\n", "My notes", "markdown", "s", by="ann")

    found = await artifacts.read("notes", session="s")

    assert made == ArtifactEdit("notes", 1, "create")
    assert found == Artifact(
        "notes", 1, "one\n", "My notes", "markdown", "s", "create", found.at, "ann"
    )
    assert made.handle == found.handle == "artifact://notes@1"


async def test_every_change_is_a_version_that_can_be_read(artifacts: Artifacts) -> None:
    await artifacts.create("a", "one two three")
    exact = await artifacts.update("a", "two", "2")
    near = await artifacts.update("a", "one 2 thee", "ONE 2 THREE")
    whole = await artifacts.rewrite("a", "")

    assert exact == ArtifactEdit("a", 2, "update", 1.0, "two")
    assert near == ArtifactEdit("a", 3, "update_fuzzy", 0.9, "one 2 three")
    assert whole == ArtifactEdit("a", 4, "rewrite")
    texts = [(await artifacts.read("a", version)).content for version in range(1, 5)]
    assert texts == ["one two three", "one 2 three", "ONE 2 THREE", ""]
    history = await artifacts.versions("a")
    times = [version.at for version in history]
    assert history == [
        Version(1, "create", 13, times[0], None, None),
        Version(2, "update", 11, times[1], None, None),
        Version(3, "update_fuzzy", 11, times[2], None, 0.9),
        Version(4, "rewrite", 0, times[3], None, None),
    ]


async def test_a_diff_goes_from_one_version_to_another(artifacts: Artifacts) -> None:
    await artifacts.create("a b", "1\n2\n")
    await artifacts.rewrite("a b", "1\ntwo\n")
    await artifacts.rewrite("a b", "1\nII\n")

    assert await artifacts.diff("a b", 1, 2) == (
        "--- artifact://a%20b@1\n+++ artifact://a%20b@2\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"
    )
    assert "+II\n" in await artifacts.diff("a b", 1)
    assert await artifacts.diff("a b", 3) == ""


async def test_artifacts_are_listed_by_session_in_their_order(artifacts: Artifacts) -> None:
    for id, session in (("z", "s"), ("a", "s"), ("z", "t"), ("z", None)):
        await artifacts.create(id, "text", session=session)
    await artifacts.rewrite("z", "more", "s")

    assert [(head.id, head.version) for head in await artifacts.list("s")] == [("z", 2), ("a", 1)]
    assert [head.handle for head in await artifacts.list("t")] == ["artifact://z@1"]
    assert [head.session for head in await artifacts.list()] == [None]
    assert await artifacts.list("nobody") == []


async def test_a_program_may_look_in_all_sessions(artifacts: Artifacts) -> None:
    for session in ("s", "t", None):
        await artifacts.create("a", "text", session=session)
    await artifacts.create("z", "text", session="s")
    await artifacts.rewrite("a", "more", session="t")
    assert [head.session for head in await artifacts.everywhere()] == ["t", "s", None, "s"]
    assert [head.session for head in await artifacts.everywhere("a")] == ["t", None, "s"]
    assert [head.id for head in await artifacts.everywhere(limit=2)] == ["a", "z"]


async def test_one_session_neither_sees_nor_changes_what_is_anothers(artifacts: Artifacts) -> None:
    await artifacts.create("a", "mine", session="s")

    for session in ("t", None, "", "S", "s "):
        for attempt in (
            artifacts.read("a", session=session),
            artifacts.open("artifact://a@1", session),
            artifacts.versions("a", session),
            artifacts.diff("a", 1, 1, session),
            artifacts.update("a", "mine", "x", session),
            artifacts.rewrite("a", "x", session),
            artifacts.delete("a", session),
        ):
            with pytest.raises(ArtifactNotFound):
                await attempt
    assert (await artifacts.read("a", session="s")).content == "mine"


async def test_an_id_is_taken_until_it_is_deleted(artifacts: Artifacts) -> None:
    await artifacts.create("a", "first")
    with pytest.raises(ArtifactTaken):
        await artifacts.create("a", "second")
    await artifacts.delete("a")
    with pytest.raises(ArtifactNotFound):
        await artifacts.read("a")
    with pytest.raises(ArtifactNotFound):
        await artifacts.delete("a")

    await artifacts.create("a", "third")

    assert [version.version for version in await artifacts.versions("a")] == [1]
    assert (await artifacts.read("a")).content == "third"


@pytest.mark.parametrize("version", [0, -1, 2, 2**40, 10**30])
async def test_a_version_that_never_was_is_not_found(artifacts: Artifacts, version: int) -> None:
    await artifacts.create("a", "x")

    with pytest.raises(ArtifactNotFound, match="Its last is 1"):
        await artifacts.read("a", version)


async def test_what_is_no_text_is_refused(artifacts: Artifacts) -> None:
    await artifacts.create("a", "x")

    for attempt in (
        artifacts.create("b", b"bytes"),  # type: ignore[arg-type]
        artifacts.rewrite("a", 3),  # type: ignore[arg-type]
        artifacts.update("a", "x", None),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            await attempt
    with pytest.raises(ValueError, match="is text of 1 to 500"):
        await artifacts.create(7, "x")  # type: ignore[arg-type]
    assert [head.version for head in await artifacts.list()] == [1]


@pytest.mark.parametrize("id", ["", "x" * 501])
async def test_an_id_has_a_sane_length(artifacts: Artifacts, id: str) -> None:
    with pytest.raises(ValueError, match="1 to 500 characters"):
        await artifacts.create(id, "x")


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "\ud800 half",
        "\x01plain",
        "é漢👩",
        "'; DROP TABLE x; --",
        "a/b@3#?%41",
        "\r\n",
        "x" * 500,
    ],
)
async def test_any_text_is_an_id_a_session_and_a_content(artifacts: Artifacts, text: str) -> None:
    made = await artifacts.create(text, text, text, text, text, by=text)

    found = await artifacts.open(made.handle, text)

    assert (found.id, found.content, found.title, found.content_type) == (text,) * 4
    assert (found.session, found.by, found.handle) == (text, text, made.handle)
    assert [head.id for head in await artifacts.list(text)] == [text]
    change = await artifacts.update(text, text, f"{text}\0{text}", text)
    assert (change.kind, change.matched) == ("update", text)
    assert (await artifacts.read(text, session=text)).content == f"{text}\0{text}"


@settings(deadline=None)
@given(st.text(alphabet="a@:/%4 ü\ud800\0#?", min_size=1), st.integers(1, 10**9))
def test_a_handle_says_what_it_was_made_from(id: str, version: int) -> None:
    assert parse_handle(format_handle(id, version)) == (id, version)


@pytest.mark.parametrize(
    ("reference", "parsed"),
    [
        ("notes", ("notes", None)),
        ("notes@2", ("notes@2", None)),
        ("artifact://notes", ("notes", None)),
        ("artifact://notes/today@2", ("notes/today", 2)),
        ("artifact://me@home", ("me@home", None)),
        ("artifact://a@" + "9" * 5000, ("a@" + "9" * 5000, None)),
        ("artifact://a@٣", ("a@٣", None)),
    ],
)
def test_a_reference_is_read_kindly(reference: str, parsed: tuple[str, int | None]) -> None:
    assert parse_handle(reference) == parsed


def test_a_handle_of_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        parse_handle("artifact://%ff@1")


@pytest.mark.parametrize(
    ("content", "old", "count"), [("aXbXc", "X", 2), ("aaa", "aa", 2), ("-" * 1000, "-", 1000)]
)
async def test_a_passage_that_stands_there_more_than_once_is_refused(
    artifacts: Artifacts, content: str, old: str, count: int
) -> None:
    await artifacts.create("a", content)

    with pytest.raises(PassageRepeated, match=f"{count} times") as caught:
        await artifacts.update("a", old, "new")
    assert caught.value.count == count
    assert (await artifacts.read("a")).version == 1


async def test_the_closest_passage_is_shown_if_it_is_too_far_away(artifacts: Artifacts) -> None:
    await artifacts.create("a", "The quick brown fox.\nNothing else is here.\n")

    with pytest.raises(
        PassageNotFound, match="The closest passage is 50% alike:\nquick br"
    ) as caught:
        await artifacts.update("a", "quxxx bxxw", "new")
    assert caught.value.closest == "quick brow"
    assert (await artifacts.read("a")).version == 1


@pytest.mark.parametrize(("old", "kind"), [("0123456xyz", "update_fuzzy"), ("012345wxyz", None)])
async def test_a_near_match_differs_in_three_of_ten_characters_at_most(
    artifacts: Artifacts, old: str, kind: str | None
) -> None:
    await artifacts.create("a", "<0123456789>")

    if kind is None:
        with pytest.raises(PassageNotFound):
            await artifacts.update("a", old, "new")
    else:
        change = await artifacts.update("a", old, "new")
        assert (change.kind, change.matched) == (kind, "0123456789")
        assert (await artifacts.read("a")).content == "<new>"


async def test_the_best_near_match_is_taken_and_not_the_first(artifacts: Artifacts) -> None:
    far, near = "def total(prices, tax):", "def total(price, tax):"
    between = "    pass\n" * 50
    await artifacts.create("a", f"{far}\n{between}{near}\n")

    change = await artifacts.update("a", "def total(price, tax) :", "def sum(price, tax):")

    assert change.matched == near
    text = (await artifacts.read("a")).content
    assert text == f"{far}\n{between}def sum(price, tax):\n"


async def test_an_empty_passage_and_one_without_measure_are_refused(artifacts: Artifacts) -> None:
    await artifacts.create("a", "ab" * 300_000)

    with pytest.raises(ValueError, match="old is empty"):
        await artifacts.update("a", "", "x")
    with pytest.raises(PassageNotFound, match="too long to look for"):
        await artifacts.update("a", "ba" * 300_000, "x")
    assert (await artifacts.read("a")).version == 1


async def test_whoever_expects_another_version_changes_nothing(artifacts: Artifacts) -> None:
    await artifacts.create("a", "one")
    await artifacts.rewrite("a", "two", expect=1)

    for attempt in (
        artifacts.update("a", "two", "three", expect=1),
        artifacts.rewrite("a", "three", expect=1),
        artifacts.rewrite("a", "three", expect=3),
    ):
        with pytest.raises(VersionConflict, match="at version 2") as caught:
            await attempt
        assert caught.value.current == 2
    assert (await artifacts.update("a", "two", "three", expect=2)).version == 3


async def test_of_writers_that_expect_the_same_version_one_gets_through(
    artifacts: Artifacts,
) -> None:
    await artifacts.create("a", "start")

    done = await asyncio.gather(
        *(artifacts.rewrite("a", f"text {n}", expect=1) for n in range(20)), return_exceptions=True
    )

    [winner] = [each for each in done if isinstance(each, ArtifactEdit)]
    assert winner.version == 2
    assert all(isinstance(each, ArtifactEdit | VersionConflict) for each in done)
    assert len(await artifacts.versions("a")) == 2


async def test_updates_at_once_are_all_applied(artifacts: Artifacts) -> None:
    await artifacts.create("a", "END")

    made = await asyncio.gather(*(artifacts.update("a", "END", f"{n}\nEND") for n in range(15)))

    assert sorted(change.version for change in made) == list(range(2, 17))
    lines = (await artifacts.read("a")).content.split("\n")
    assert sorted(map(int, lines[:-1])) == list(range(15))


async def test_updates_of_several_processes_are_all_applied(
    artifacts: Artifacts, children: Children
) -> None:
    await artifacts.create("a", "END")
    growing = [children.start() for _ in range(3)]
    for word, child in zip("xyz", growing, strict=True):
        child.send("grow", id="a", word=word, times=10)
    for n in range(10):
        await artifacts.update("a", "END", f"w{n}\nEND")
    for child in growing:
        assert child.answer() == {"grown": True}

    found = await artifacts.read("a")
    assert found.version == 41
    lines = found.content.split("\n")[:-1]
    assert sorted(lines) == sorted(f"{word}{n}" for word in "wxyz" for n in range(10))
    for word in "wxyz":
        assert [line for line in lines if line[0] == word] == [f"{word}{n}" for n in range(10)]


async def test_processes_that_change_several_artifacts_at_once_do_not_hinder_each_other(
    url: str,
) -> None:
    names = [f"a{n}" for n in range(4)]
    async with Toolbox(store=url) as one, Toolbox(store=url) as other:
        for name in names:
            await one.artifacts.create(name, "END")
        await asyncio.gather(
            *(one.artifacts.update(name, "END", f"{n} END") for n in range(4) for name in names),
            *(
                other.artifacts.update(name, "END", f"{n} END")
                for n in range(4, 8)
                for name in reversed(names)
            ),
        )

        for name in names:
            words = (await one.artifacts.read(name)).content.split()
            assert sorted(map(int, words[:-1])) == list(range(8))


async def test_a_process_learns_of_a_conflict_with_another(
    artifacts: Artifacts, children: Children
) -> None:
    child = children.start()
    assert child.ask("write", method="create", id="a", content="x") == {
        "version": 1,
        "kind": "create",
    }
    await artifacts.rewrite("a", "y")

    assert child.ask("write", method="rewrite", id="a", content="z", expect=1) == {
        "error": "VersionConflict"
    }
    assert child.ask("write", method="create", id="a", content="z") == {"error": "ArtifactTaken"}
    assert (await artifacts.read("a")).content == "y"


async def test_a_killed_process_leaves_whole_versions_and_what_it_acknowledged(
    artifacts: Artifacts, children: Children
) -> None:
    await artifacts.create("a", "END")
    child = children.start()
    child.send("grow", id="a", word="x", times=100_000)

    async def begun() -> bool:
        return (await artifacts.read("a")).version > 5 + random.randrange(20)

    await eventually(begun)
    child.kill()

    found = await artifacts.read("a")
    assert found.content == "".join(f"x{n}\n" for n in range(found.version - 1)) + "END"
    assert [each.version for each in await artifacts.versions("a")] == [
        *range(1, found.version + 1)
    ]
    assert (await artifacts.update("a", "END", "done")).version == found.version + 1


async def test_a_writer_of_what_was_deleted_and_made_again_changes_nothing(
    artifacts: Artifacts,
) -> None:
    """Deleting and creating again while updates run never mixes the two."""
    await artifacts.create("a", "old END")

    async def grow() -> None:
        for _ in range(40):
            await artifacts.update("a", "END", "x END")

    async def renew() -> None:
        for n in range(10):
            await artifacts.delete("a")
            await artifacts.create("a", f"new{n} END")

    done = await asyncio.gather(grow(), renew(), return_exceptions=True)
    assert [each for each in done if each and not isinstance(each, ArtifactNotFound)] == []
    found = await artifacts.read("a")
    assert found.content == f"new9 {'x ' * (found.version - 1)}END"


async def test_ten_thousand_versions_are_kept_and_read_one_by_one(
    artifacts: Artifacts, execute: Execute, url: str
) -> None:
    await artifacts.create("a", "1")
    birth = execute("SELECT birth FROM wieldy_artifacts")
    numbers = "generate_series(2, 10000) AS n(i)"
    if url.startswith("sqlite"):
        numbers = (
            "(WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
            "SELECT i FROM n) AS n"
        )
    execute(
        "INSERT INTO wieldy_artifact_versions (birth, version, mark, kind, content, size, at) "
        f"SELECT '{birth}', i, 'm', 'rewrite', CAST(i AS TEXT), 1, 0 FROM {numbers}"
    )
    execute("UPDATE wieldy_artifacts SET version = 10000")

    for version in (1, 2, 5000, 10_000, None):
        assert (await artifacts.read("a", version)).content == str(version or 10_000)
    assert len(await artifacts.versions("a")) == 10_000
    assert (await artifacts.update("a", "10000", "last")).version == 10_001
    await artifacts.delete("a")
    assert execute("SELECT count(*) FROM wieldy_artifact_versions") == "0"


async def test_a_large_text_is_kept_whole(artifacts: Artifacts) -> None:
    text = "".join(random.Random(3).choices("abc\0\n é", k=2_000_000))

    await artifacts.create("a", text)

    assert (await artifacts.read("a")).content == text


async def test_a_change_over_a_lost_connection_is_made_once(server: Server) -> None:
    async with Toolbox(store=server.new_database()) as box:
        await box.artifacts.create("a", "END")
        for n in range(5):
            changing = asyncio.ensure_future(box.artifacts.update("a", "END", f"{n} END"))
            await asyncio.to_thread(server.disconnect)
            await changing

        found = await box.artifacts.read("a")
        assert (found.version, found.content) == (6, "0 1 2 3 4 END")


async def test_artifacts_of_an_older_store_are_added_to_it(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
    first = {"wieldy_calls", "wieldy_owners", "wieldy_version"}
    for name in metadata.tables.keys() - first:
        execute(f"DROP TABLE {name}")
    execute("DELETE FROM wieldy_version WHERE number > 1")

    async with Toolbox(store=url) as box:
        await box.artifacts.create("a", "x")
        assert (await box.artifacts.read("a")).content == "x"


def test_a_box_without_a_store_has_no_artifacts() -> None:
    with pytest.raises(StoreError, match="this toolbox has none"):
        _ = Toolbox().artifacts
