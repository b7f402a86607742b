"""What a model reads of a result: within a bound, and the rest by its handle."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from wieldy import (
    Audio,
    Call,
    Context,
    Image,
    Outcome,
    Resource,
    Secret,
    Status,
    Text,
    Toolbox,
)
from wieldy.core.limits.bounded_result import MAX_RESULT, bound_outcome
from wieldy.core.limits.kept_results import MAX_SESSION
from wieldy.tools.artifacts import add_artifact_tools
from wieldy.wire import anthropic, gemini, mcp, openai, openai_responses
from wieldy.wire.text.result_text import format_result

LARGE = 5_000_000
OK = Status.OK


@pytest.fixture(params=[False, True], ids=["memory", "store"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Toolbox]:
    async with Toolbox(store=f"sqlite:///{tmp_path}/kept.db" if request.param else None) as box:
        yield box


def giving(box: Toolbox, value: Any, **options: Any) -> None:
    box.add(lambda: value, name="give", description="Give it.", **options)


async def read(box: Toolbox, session: str | None = None, **how: Any) -> tuple[Outcome, Outcome]:
    outcome = await box.call("give", session=session)
    return outcome, await box.results.for_model(outcome, **how)


async def test_a_result_of_5_mb_is_cut_and_the_value_stays_whole(box: Toolbox) -> None:
    giving(box, "x" * LARGE)

    outcome, shown = await read(box)

    assert outcome.value == outcome.text == "x" * LARGE
    assert len(shown.text) <= MAX_RESULT
    assert f"of 5,000,000 characters shown, the whole is at {shown.metadata['spilled']}" in (
        shown.text
    )
    kept = await box.results.open(shown.metadata["spilled"], None)
    assert kept.content == "x" * LARGE


async def test_without_a_store_the_text_says_until_when_the_rest_is_kept() -> None:
    box = Toolbox()
    giving(box, "x" * LARGE)

    _, shown = await read(box)

    assert shown.text.endswith(", in memory until newer results need the room or the program ends]")


@pytest.mark.parametrize("length", [0, 1, MAX_RESULT - 1, MAX_RESULT])
async def test_a_result_within_the_bound_is_the_same_outcome(length: int) -> None:
    box = Toolbox()
    giving(box, "x" * length)

    outcome, shown = await read(box)

    assert shown is outcome


@pytest.mark.parametrize("length", [MAX_RESULT, MAX_RESULT + 1])
async def test_characters_count_and_not_bytes(length: int) -> None:
    box = Toolbox()
    giving(box, "\N{GRINNING FACE}" * length)

    _, shown = await read(box)

    assert ("cut" in shown.metadata) == (length > MAX_RESULT)
    # Nothing that is cut is torn in two.
    assert shown.text.encode().decode().startswith("\N{GRINNING FACE}" * 99_000)


async def test_structured_content_and_content_are_each_bounded(box: Toolbox) -> None:
    def both() -> Outcome:
        rows = {"rows": ["y" * 100] * 50_000}
        return Outcome(Call("inner"), OK, rows, content=(Text("a short text"),))

    box.add(both, name="give")

    outcome, shown = await read(box)

    assert len(outcome.value["rows"]) == 50_000
    assert shown.text == "a short text"
    assert isinstance(shown.value, str)
    assert len(shown.value) <= MAX_RESULT
    kept = await box.results.open(shown.metadata["spilled"], None)
    assert kept.content.startswith('{"rows":["yyy')
    assert len(kept.content) > LARGE


async def test_a_result_of_very_many_blocks_becomes_few() -> None:
    box = Toolbox()
    giving(box, [Text("a")] * 100_000)

    _, shown = await read(box)

    assert (len(shown.content), len(shown.text)) == (1, 100_000)


async def test_very_many_blocks_that_are_no_text_are_left_out(box: Toolbox) -> None:
    giving(box, [each for n in range(2_000) for each in (Text("a"), Resource(f"file:///{n}"))])

    _, shown = await read(box)

    assert len(shown.content) <= 1_001
    assert "blocks that are no text" in shown.text
    assert "spilled" in shown.metadata


@pytest.mark.parametrize(
    ("blocks", "left"),
    [
        ([Image(b"p" * 1_000_000)], 1),
        ([Image(b"p" * 5_000_000)], 1),
        ([Image(b"p" * 5_000_001)], 0),
        ([Image(b"p" * 2_500_001), Audio(b"s" * 2_499_999)], 2),
        ([Text("see"), Image(b"p" * 6_000_000)], 0),
        ([Image(b"p" * 3_000_000), Audio(b"s" * 3_000_000), Image(b"q" * 1_000_000)], 2),
        ([Resource("file:///a", data=b"r" * 6_000_000)], 0),
    ],
)
async def test_pictures_and_sound_are_bounded_by_their_bytes(
    box: Toolbox, blocks: list[Any], left: int
) -> None:
    giving(box, blocks)

    outcome, shown = await read(box)

    kept = [block for block in shown.content if not isinstance(block, Text)]
    assert len(kept) == left
    assert list(outcome.content) == blocks
    if left < len(blocks) - (blocks[0] == Text("see")):
        whole = await box.results.open(shown.metadata["spilled"], None)
        assert ";base64," in whole.content


@pytest.mark.parametrize(
    "hostile",
    [
        [Resource("file:///" + "u" * LARGE)],
        [Resource("file:///a", text="t" * LARGE)],
        [Resource("file:///a", name="n" * LARGE)],
        [Image(b"x", "m" * LARGE)],
        ["x" * LARGE],
        {"k" * LARGE: 1},
    ],
    ids=["uri", "text", "name", "kind", "list", "key"],
)
async def test_nothing_in_a_result_goes_round_the_bound(hostile: Any) -> None:
    box = Toolbox()
    giving(box, hostile)

    _, shown = await read(box)

    assert len(repr(mcp.render([shown])[0])) < MAX_RESULT * 1.1


async def test_the_most_specific_number_counts() -> None:
    box = Toolbox(max_result=1_000)
    for name, own in (("box", None), ("never", 0), ("more", 5_000)):
        box.add(lambda: "x" * 9_000, name=name, description="Give it.", max_result=own)

    sizes = {}
    for name in ("box", "never", "more"):
        outcome = await box.call(name)
        for most in (None, 2_000, 0):
            shown = await box.results.for_model(outcome, most)
            sizes[name, most] = round(len(shown.text), -3)

    assert sizes == {
        **{("box", None): 1_000, ("box", 2_000): 2_000, ("box", 0): 9_000},
        **{("never", most): 9_000 for most in (None, 2_000, 0)},
        **{("more", most): 5_000 for most in (None, 2_000, 0)},
    }


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "many", None])
def test_a_number_that_can_not_be_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="max_result"):
        Toolbox(max_result=wrong)


@pytest.mark.parametrize("at", range(950, 1_001, 7))
async def test_a_secret_is_covered_before_the_text_is_cut(at: int) -> None:
    secret = "hush-hush-" + "k" * 40
    box = Toolbox(max_result=1_000)

    def leak(key: str) -> str:
        return "x" * at + key + "y" * 5_000

    box.add(leak, name="give", presets={"key": Secret(secret)})

    _, shown = await read(box)

    assert "hush" not in repr(mcp.render([shown]))
    kept = await box.results.open(shown.metadata["spilled"], None)
    assert "hush" not in kept.content


async def test_each_session_reads_only_its_own(box: Toolbox) -> None:
    giving(box, "x" * LARGE)
    add_artifact_tools(box)
    _, shown = await read(box, "ann")
    handle = {"artifact": shown.metadata["spilled"]}

    own = await box.call("artifact_read", handle, session="ann")
    other = await box.call("artifact_read", handle, session="bob")
    nobody = await box.call("artifact_read", handle)

    assert own.text.endswith(f"characters 1-20,000 of 5,000,000, {handle['artifact']}]")
    assert "x" * 10 not in other.text + nobody.text
    assert not other.ok
    assert not nobody.ok


async def test_what_reads_by_handle_is_itself_bounded_and_not_kept_again() -> None:
    box = Toolbox(max_result=1_000)
    giving(box, "line\n" * 100_000)
    add_artifact_tools(box)
    _, shown = await read(box)

    part = await box.call("artifact_read", {"artifact": shown.metadata["spilled"], "count": 3})
    most = await box.call(
        "artifact_read",
        {"artifact": shown.metadata["spilled"], "count": 100_000, "unit": "characters"},
    )

    assert "artifact_read reads it" in shown.text
    assert part.text.startswith("line\nline\nline\n[lines 1-3 of 100,000")
    assert len(most.text) < 21_000
    assert await box.results.for_model(most) is most


async def test_memory_is_bounded_per_session_and_in_all_and_the_oldest_go_first() -> None:
    box = Toolbox()
    giving(box, "x" * (MAX_SESSION // 2))
    first, second, third = [(await read(box, "a"))[1].metadata["spilled"] for _ in range(3)]

    with pytest.raises(LookupError, match="make the call again"):
        await box.results.open(first, "a")
    for handle in (second, third):
        assert (await box.results.open(handle, "a")).content

    others = [(await read(box, f"s{n}"))[1].metadata["spilled"] for n in range(8)]
    with pytest.raises(LookupError):
        await box.results.open(third, "a")
    assert (await box.results.open(others[-1], "s7")).content


async def test_of_60_mb_the_beginning_is_kept_in_memory_and_the_text_says_so() -> None:
    box = Toolbox()
    giving(box, [Text("x" * 60_000_000)])

    _, shown = await read(box)

    assert "of 60,000,000 characters shown, the first 16,000,000 are at artifact://" in shown.text
    assert len((await box.results.open(shown.metadata["spilled"], None)).content) == MAX_SESSION


async def test_what_can_not_be_kept_is_cut_nevertheless() -> None:
    async def fails(call: Call, whole: str) -> str:
        raise OSError("disk full")

    box = Toolbox(spill=fails)
    giving(box, "x" * LARGE)

    outcome, shown = await read(box)

    assert "the rest could not be kept" in shown.text
    assert len(shown.text) <= MAX_RESULT
    assert shown.metadata["spill_error"] == "OSError: disk full"
    assert outcome.value == "x" * LARGE


async def test_what_is_read_twice_is_kept_once(box: Toolbox) -> None:
    giving(box, "x" * LARGE)
    outcome = await box.call("give")

    handles = [(await box.results.for_model(outcome)).metadata["spilled"] for _ in range(3)]

    assert handles == [f"artifact://{outcome.call.id}@1"] * 3


async def test_what_comes_from_outside_stays_marked_when_it_is_kept(box: Toolbox) -> None:
    giving(box, "x" * LARGE, untrusted=True)

    _, shown = await read(box)

    assert (await box.results.open(shown.metadata["spilled"], None)).untrusted
    assert shown.metadata["untrusted"]


async def test_a_failure_with_much_content_is_still_a_failure(box: Toolbox) -> None:
    async def fails(context: Any) -> None:
        await context.emit(Text("x" * LARGE))
        raise RuntimeError("at the end")

    fails.__annotations__["context"] = Context
    box.add(fails, name="give")

    outcome, shown = await read(box)

    assert shown.error is outcome.error
    [answer] = mcp.render([shown])
    assert answer["isError"]
    assert "at the end" in answer["content"][0]["text"]
    assert len(repr(answer)) < MAX_RESULT * 1.1


@pytest.mark.parametrize("module", [openai, openai_responses, anthropic, gemini, mcp])
def test_renderers_bound_what_was_not_bound_before(module: Any) -> None:
    outcome = Outcome(Call("give", provider_id="1"), OK, "x" * LARGE)

    assert len(repr(module.render([outcome]))) < MAX_RESULT + 1_000
    assert "the rest was not kept" in repr(module.render([outcome]))
    assert len(repr(module.render([outcome], max_result=0))) > LARGE
    assert len(repr(module.render([bound_outcome(outcome)]))) < MAX_RESULT + 1_000


def test_text_for_a_model_without_tool_calls_is_bounded_too() -> None:
    outcome = Outcome(Call("give"), OK, {"rows": ["x" * LARGE]})

    assert len(format_result("give", outcome)) < MAX_RESULT + 1_000
    assert len(format_result("give", outcome, 0)) > LARGE
