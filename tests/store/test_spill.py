"""Large results go to the artifacts of their session, and a preview stays."""

import pytest

from tests.store.child import Children
from tests.store.conftest import Execute
from wieldy import ArtifactNotFound, Call, Secret, Status, Toolbox


def make_box(url: str) -> Toolbox:
    """A box whose tool says much."""
    box = Toolbox(store=url)

    @box.tool(read_only=True, max_result=20)
    async def recite(n: int) -> str:
        """Say much."""
        return f"line {n}\n" * 1000

    return box


async def test_a_large_result_leaves_a_preview_and_a_handle(url: str) -> None:
    async with make_box(url) as box:
        outcome = await box.call("recite", {"n": 1}, session="s")

        handle = f"artifact://{outcome.call.id}@1"
        preview = (
            "line 1\nline 1\nline 1"[:20]
            + f"\n[cut: 20 of 7,000 characters shown, the whole is at {handle}]"
        )
        assert outcome.value == outcome.text == preview
        assert outcome.metadata["spilled"] == handle
        kept = await box.artifacts.open(handle, "s")
        assert kept.content == "line 1\n" * 1000
        assert (kept.title, kept.content_type, kept.by) == (
            "Result of recite",
            "text",
            outcome.call.id,
        )
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.value == preview
        assert entry.metadata["spilled"] == handle


async def test_no_other_session_can_follow_the_handle(url: str) -> None:
    async with make_box(url) as box:
        outcome = await box.call("recite", {"n": 1}, session="s")

        for session in ("t", None):
            with pytest.raises(ArtifactNotFound):
                await box.artifacts.open(outcome.metadata["spilled"], session)


async def test_results_of_no_session_have_a_place_too(url: str) -> None:
    async with make_box(url) as box:
        outcome = await box.call("recite", {"n": 1})

        assert len((await box.artifacts.open(outcome.metadata["spilled"])).content) == 7000


async def test_a_small_result_leaves_no_artifact(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(max_result=20)
        async def brief() -> str:
            return "brief"

        assert (await box.call("brief")).value == "brief"
        assert await box.artifacts.list() == []


async def test_what_is_kept_elsewhere_leaves_no_artifact(url: str) -> None:
    async def elsewhere(call: Call, whole: str) -> str:
        return "shelf:1"

    async with Toolbox(store=url, spill=elsewhere) as box:

        @box.tool(max_result=5)
        async def long() -> str:
            return "x" * 100

        assert (await box.call("long")).metadata["spilled"] == "shelf:1"
        assert await box.artifacts.list() == []


async def test_a_secret_is_in_no_artifact(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(max_result=5)
        async def long(key: Secret) -> str:
            return f"the key is {key.get_secret_value()}" * 10

        outcome = await box.call("long", {"key": "hunter2-hunter2"})

        kept = await box.artifacts.open(outcome.metadata["spilled"])
        assert "the key is " in kept.content
        assert "hunter2" not in execute("SELECT * FROM wieldy_artifact_versions")


async def test_calls_at_once_spill_to_artifacts_of_their_own(url: str) -> None:
    async with make_box(url) as box:
        outcomes = await box.call_many([("recite", {"n": n}) for n in range(20)], session="s")

        for n, outcome in enumerate(outcomes):
            kept = await box.artifacts.open(outcome.metadata["spilled"], "s")
            assert kept.content == f"line {n}\n" * 1000


@pytest.mark.parametrize(("commit", "kept"), [(4, 0), (5, 1)])
async def test_a_call_that_is_recovered_spills_to_the_same_artifact(
    url: str, children: Children, commit: int, kept: int
) -> None:
    child = children.start(f"commit:{commit}")
    child.send("call", tool="recite", arguments={"n": 1}, session="s")
    assert child.wait() == -9

    async with make_box(url) as box:
        assert len(await box.artifacts.list("s")) == kept
        [outcome] = await box.recover()

        assert outcome.status is Status.OK
        assert outcome.metadata["spilled"] == f"artifact://{outcome.call.id}@1"
        whole = await box.artifacts.open(outcome.metadata["spilled"], "s")
        assert whole.content == "line 1\n" * 1000


async def test_a_recovered_call_with_another_result_makes_a_further_version(
    url: str, children: Children
) -> None:
    child = children.start("commit:5")
    child.send("call", tool="recite", arguments={"n": 1})
    assert child.wait() == -9
    async with Toolbox(store=url) as box:

        @box.tool(read_only=True, max_result=20)
        async def recite(n: int) -> str:
            """Say much."""
            return "something else " * 10

        [outcome] = await box.recover()

        assert outcome.metadata["spilled"] == f"artifact://{outcome.call.id}@2"
        history = await box.artifacts.versions(outcome.call.id)
        assert [each.kind for each in history] == ["create", "rewrite"]


async def test_a_call_with_a_strange_id_spills_too(url: str) -> None:
    async with make_box(url) as box:
        for id in ("a/b@1", "\ud800", "x" * 5000):
            outcome = await box.call(Call("recite", {"n": 1}, id=id))

            assert len((await box.artifacts.open(outcome.metadata["spilled"])).content) == 7000


async def test_a_result_that_can_not_be_kept_is_not_cut(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        await box.artifacts.list()
        execute("DROP TABLE wieldy_artifacts")

        outcome = await box.call("recite", {"n": 1})

        assert outcome.value == "line 1\n" * 1000
        assert outcome.metadata["spill_error"].startswith(("StoreError", "StoreUnavailable"))
