"""Servers that die, hang, print garbage and send what they should not."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest

from tests.mcp.conftest import FRESH_SHOP, SHOP, raw
from tests.mcp.waiting import alive, parent_of, until
from wieldy import (
    CallUnknown,
    Limits,
    Outcome,
    Secret,
    ServerUnavailable,
    Status,
    Toolbox,
    ToolFailed,
)
from wieldy.mcp import Patience

QUICK = Patience(connect=5, sign_of_life=0.5, close=0.5)


@pytest.fixture
def env(trace: Path, tmp_path: Path) -> dict[str, str]:
    return {"SHOP_TRACE": str(trace), "SHOP_STARTS": str(tmp_path / "starts")}


def lines(path: Path) -> list[str]:
    return path.read_text().split()


def starts(env: dict[str, str]) -> int:
    return len(Path(env["SHOP_STARTS"]).read_text().split())


def process_of(env: dict[str, str]) -> int:
    return int(Path(env["SHOP_STARTS"]).read_text().split()[-1])


async def test_lines_that_are_no_messages_are_passed_over(box: Toolbox) -> None:
    await box.add_mcp(raw("garbage"))

    assert (await box.call("echo", {"a": 1})).value == '{"a": 1}'


async def test_a_byte_that_is_not_utf8_costs_one_character(box: Toolbox) -> None:
    await box.add_mcp(raw("utf8"), limits=Limits(timeout=120))

    outcomes = [await box.call("echo") for _ in range(3)]

    assert [outcome.value for outcome in outcomes] == ["caf\N{REPLACEMENT CHARACTER}"] * 3


async def test_notifications_of_the_wrong_shape_are_one_line_in_the_log_each(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    await box.add_mcp(raw("notes"))
    assert (await box.call("echo")).value == "that was all"

    said = [caplog.handler.format(each) for each in caplog.records if each.name == "client"]
    found = [line.partition("notifications/")[2].partition(" ")[0] for line in said]
    assert found == [
        "progress",
        "progress",
        "message",
        "cancelled",
        "resources/updated",
        "tools/list_changed",
        "elicitation/complete",
    ]
    assert not any("\n" in line or "forged" in line for line in said)


async def test_an_answer_that_is_torn_ends_its_call(box: Toolbox) -> None:
    await box.add_mcp(raw("torn"), limits=Limits(timeout=120))

    outcome = await box.call("echo")

    assert outcome.status is Status.ERROR
    assert "can't be read" in outcome.text


async def test_the_first_of_two_answers_counts(box: Toolbox) -> None:
    await box.add_mcp(raw("twice"))

    assert [(await box.call("echo")).value for _ in range(3)] == ["first"] * 3


async def test_an_answer_of_the_wrong_shape_is_an_error(box: Toolbox) -> None:
    await box.add_mcp(raw("strange"))

    outcome = await box.call("echo")

    assert outcome.status is Status.ERROR
    assert "can't be read" in outcome.text


async def test_an_error_of_the_protocol_is_an_error_and_no_lost_connection(
    box: Toolbox, tmp_path: Path
) -> None:
    log = tmp_path / "starts"
    await box.add_mcp(raw("error"), env={"RAW_STARTS": str(log)})

    outcomes = [await box.call("echo") for _ in range(3)]

    assert {outcome.text for outcome in outcomes} == {"RemoteFailure: the shelf is empty"}
    assert len(log.read_text().split()) == 1


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("die", "exited with status 3(.|\n)*no licence found"),
        ("mute", "did not answer in time"),
        ("endless", "a message of more than"),
    ],
)
async def test_a_server_that_can_t_be_opened_says_why(box: Toolbox, mode: str, words: str) -> None:
    with pytest.raises(ServerUnavailable, match=words):
        await box.add_mcp(raw(mode), patience=Patience(connect=2))


async def test_an_error_shows_what_the_server_printed_and_not_its_secrets(box: Toolbox) -> None:
    with pytest.raises(ServerUnavailable) as caught:
        await box.add_mcp(raw("usage"), env={"RAW_KEY": Secret("hunter2")})

    assert "Usage: server --key KEY" in str(caught.value)
    assert "is wrong" in caught.value.stderr
    assert "hunter2" not in str(caught.value)


async def test_large_arguments_and_large_results_pass(box: Toolbox) -> None:
    await box.add_mcp(raw("large"), limits=Limits(timeout=120))
    sent = {"size": 20_000_000, "padding": "ü" * 2_000_000}

    outcomes = await box.call_many([("echo", sent)] * 3)

    assert [len(outcome.value) for outcome in outcomes] == [20_000_000] * 3


async def test_callers_of_a_server_that_dies_under_them_all_get_an_outcome(
    box: Toolbox, env: dict[str, str], trace: Path
) -> None:
    await box.add_mcp(SHOP, env=env, limits=Limits(timeout=120))
    waiting = [asyncio.create_task(box.call("wait", {"seconds": 30})) for _ in range(20)]
    await until(lambda: lines(trace) == ["waiting"] * 20)

    os.kill(process_of(env), signal.SIGKILL)
    outcomes = await asyncio.gather(*waiting)
    after = await box.call_many([("add", {"a": 1})] * 20)

    assert {outcome.status for outcome in outcomes} == {Status.UNKNOWN}
    assert all(outcome.ok for outcome in after)
    assert starts(env) == 2
    assert lines(trace) == ["waiting"] * 20


async def test_an_old_server_that_dies_of_the_newest_question_is_asked_the_older_way(
    box: Toolbox,
) -> None:
    await box.add_mcp(raw("fragile"))

    assert (await box.call("echo", {"a": 1})).ok


async def test_a_bad_server_of_a_configuration_does_not_stop_the_others(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {
        name: {"command": words[0], "args": words[1:]}
        for name, words in (
            ("dead", raw("die")), ("good", raw("plain")), ("gone", ["no-such-program-here"]),
            ("noisy", raw("garbage")),
        )
    }  # fmt: skip
    entries["unset"] = {"command": "x", "env": {"A": "${NOT_SET_ANYWHERE}"}}  # type: ignore[dict-item]

    tools = await box.add_mcp({"mcpServers": entries})

    assert [tool.name for tool in tools] == ["echo", "ask", "more", "noisy__echo"]
    assert [tool.source for tool in tools] == [*["mcp:good"] * 3, "mcp:noisy"]
    assert {name for name, server in box.mcp.items() if server.error} == {"dead", "gone", "unset"}
    assert "no licence found" in str(box.mcp["dead"].error)
    assert "NOT_SET_ANYWHERE" in str(box.mcp["unset"].error)
    assert caplog.text.count("was not added") == 3
    assert (await box.call("noisy__echo", {"a": 1})).ok


async def test_a_configuration_of_which_nothing_works_is_an_error(box: Toolbox) -> None:
    dead = {"command": raw("die")[0], "args": raw("die")[1:]}

    with pytest.raises(ServerUnavailable, match="no licence found"):
        await box.add_mcp({"mcpServers": {"a": dead, "b": {"command": "no-such-program-here"}}})
    assert dict(box.mcp) == {}


async def test_giving_up_on_a_configuration_closes_what_was_opened(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    mute, plain = (
        {"command": words[0], "args": words[1:], "env": {"RAW_STARTS": str(log)}}
        for words in (raw("mute"), raw("plain"))
    )
    async with Toolbox() as box:
        adding = asyncio.create_task(box.add_mcp({"mcpServers": {"a": plain, "b": mute}}))
        await until(lambda: "a" in box.mcp)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding

        assert dict(box.mcp) == {} and box.names == []
        [first, *_] = lines(log)
        assert not alive(int(first))


async def test_a_name_that_is_taken_stays_with_whoever_has_it(box: Toolbox) -> None:
    plain = {"command": raw("plain")[0], "args": raw("plain")[1:]}
    await box.add_mcp(raw("plain"), name="a", allow="echo")

    with pytest.raises(ServerUnavailable, match="of this name"):
        await box.add_mcp({"mcpServers": {"a": plain, "b": {"command": "no-such-program-here"}}})

    assert list(box.mcp) == ["a"]
    assert (await box.call("echo", {"a": 1})).ok


async def test_schemas_that_loop_are_survived_and_others_are_never_fetched(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    await box.add_mcp(raw("schemas"), limits=Limits(timeout=120))

    looped = await box.call("loop", {"a": 1})
    tree = await box.call("tree", {"child": {"child": {"name": "leaf"}}})
    wrong = await box.call("tree", {"child": {"child": 5}})
    refused = box.mcp["raw"].tool_errors

    assert looped.status in (Status.OK, Status.ERROR)
    assert tree.ok
    assert wrong.status is Status.ERROR
    assert refused.keys() == {"remote", "file"}
    assert "not followed" in refused["remote"] and "127.0.0.1:9" in refused["remote"]
    assert "not followed" in refused["file"] and "root:" not in refused["file"]
    assert (await box.call("far")).ok
    assert "output schema of 'far'" in caplog.text
    assert box.get("far").output_schema is None  # type: ignore[union-attr]
    for provider in ("openai", "anthropic", "gemini", "mcp"):
        assert len(box.schemas(provider)) == 5


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2024-11-05"])
async def test_a_broken_tool_does_not_cost_its_server(
    box: Toolbox, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    await box.add_mcp(raw("broken", version))

    assert box.names[0] == "echo" and box.names[-1] == "last"
    assert (await box.call("last", {"a": 1})).ok
    refused = box.mcp["raw"].tool_errors
    broken = {"no schema", "list", "said", "hint", "tool 8", "tool 9", "tool 10", "tool 11"}
    assert broken | {"remote", "kind", "inner"} <= refused.keys()
    assert not refused.keys() & set(box.names)
    assert "it breaks the protocol: " in refused["said"]
    assert "description" in refused["said"]
    for name in refused:
        assert name in caplog.text


async def test_a_list_that_never_ends_is_read_as_far_as_it_is_new(box: Toolbox) -> None:
    [echo] = await box.add_mcp(raw("circle"))

    assert echo.name == "echo"
    assert "never ends" in box.mcp["raw"].tool_errors["the list"]


async def test_a_tool_that_is_broken_later_goes_and_the_others_stay(box: Toolbox) -> None:
    await box.add_mcp(raw("worse"))
    assert box.names == ["echo", "other"]

    await box.call("echo")

    await until(lambda: box.names == ["new"])
    assert box.mcp["raw"].tool_errors.keys() == {"echo", "other"}


async def test_illegal_and_repeated_names_do_no_harm(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    @box.tool
    def add(a: int) -> int:
        return a

    await box.add_mcp(raw("names"))

    assert box.names == ["add", "echo", "with space", "ünï/çode", "x" * 300, "raw__add"]
    assert "twice" in caplog.text and "no name" in caplog.text
    assert (await box.call("add", {"a": 7})).value == 7
    for shown in box.schemas("openai"):
        name = shown["function"]["name"]
        assert len(name) <= 64
        assert (await box.call(name, {"a": 1})).ok


async def test_a_thousand_tools_come_in_pages(box: Toolbox) -> None:
    tools = await box.add_mcp(raw("pages"))

    assert [tool.name for tool in tools] == [f"tool_{number}" for number in range(1000)]
    assert (await box.call("tool_999", {"a": 1})).ok


async def test_a_call_whose_server_dies_is_unknown_and_is_not_repeated(
    box: Toolbox, env: dict[str, str], trace: Path
) -> None:
    await box.add_mcp(SHOP, env=env)

    outcome = await box.call("die")

    assert outcome.status is Status.UNKNOWN
    assert isinstance(outcome.error, CallUnknown)
    assert "signal 9" in outcome.text
    assert lines(trace) == ["dying"]
    assert (await box.call("add", {"a": 1})).ok


async def test_a_read_only_call_of_a_trusted_server_is_repeated(
    box: Toolbox, env: dict[str, str], trace: Path
) -> None:
    await box.add_mcp(SHOP, env=env, trusted=True)

    outcome = await box.call("peek")

    assert outcome.value == {"result": "seen"}
    assert lines(trace) == ["peeked", "peeked"]
    assert starts(env) == 2


async def test_what_a_server_says_of_itself_does_not_make_it_safe_to_repeat(
    box: Toolbox, env: dict[str, str], trace: Path
) -> None:
    await box.add_mcp(SHOP, env=env)

    outcome = await box.call("peek")

    assert outcome.status is Status.UNKNOWN
    assert lines(trace) == ["peeked"]


async def test_twenty_callers_of_a_dead_server_share_one_new_connection(
    box: Toolbox, env: dict[str, str]
) -> None:
    await box.add_mcp(FRESH_SHOP, env=env)
    guard = parent_of(process_of(env))
    os.kill(process_of(env), signal.SIGKILL)
    # The guard leaves when all threads of the server are gone, and its pipes with them.
    await until(lambda: not alive(guard))

    outcomes = await box.call_many([("add", {"a": n}) for n in range(20)])

    assert [outcome.value for outcome in outcomes] == [{"result": n + 2} for n in range(20)]
    assert starts(env) == 2


async def test_a_server_that_can_t_come_back_gives_errors_with_its_last_words(
    box: Toolbox, tmp_path: Path
) -> None:
    script = tmp_path / "once.py"
    copy(SHOP, script)
    await box.add_mcp(script, env={"SHOP_TRACE": str(tmp_path / "trace")}, patience=QUICK)
    script.write_text("import sys; sys.exit('the disk is full')")
    await box.call("die")

    outcomes = await box.call_many([("add", {"a": 1})] * 5)
    later = await box.call("add", {"a": 1})

    for outcome in (*outcomes, later):
        assert outcome.status is Status.ERROR
        assert isinstance(outcome.error, ToolFailed)
        assert isinstance(outcome.error.original, ServerUnavailable)
        assert "the disk is full" in outcome.text
    assert "the disk is full" in str(box.mcp["shop"].error)


async def test_a_slow_server_is_not_taken_for_a_hung_one(box: Toolbox, env: dict[str, str]) -> None:
    await box.add_mcp(SHOP, env=env, limits=Limits(timeout=0.3), patience=QUICK)

    slow = await box.call("wait", {"seconds": 30})
    next_one = await box.call("add", {"a": 1})

    assert slow.status is Status.TIMEOUT
    assert next_one.ok
    assert starts(env) == 1


async def test_a_server_gone_silent_is_replaced_and_calls_end_in_time(
    box: Toolbox, env: dict[str, str]
) -> None:
    await box.add_mcp(SHOP, env=env, limits=Limits(timeout=120), patience=QUICK)
    os.kill(process_of(env), signal.SIGSTOP)
    given_up = asyncio.create_task(box.call("add", {"a": 1}))
    done, _ = await asyncio.wait((given_up,), timeout=0.1)
    assert not done
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up

    # It waits for the sign of life, and then for the new server; it was never sent to the old.
    outcome = await box.call("add", {"a": 1})

    assert outcome.value == {"result": 3}
    assert starts(env) == 2


async def test_a_cancelled_call_and_a_late_one_are_cancelled_at_the_server(
    box: Toolbox, env: dict[str, str], trace: Path
) -> None:
    await box.add_mcp(SHOP, env=env, limits=Limits(timeout=1))
    task = asyncio.create_task(box.call("wait", {"seconds": 30}))
    await until(lambda: trace.read_text().split() == ["waiting"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: trace.read_text().split() == ["waiting", "cancelled"])

    late = await box.call("wait", {"seconds": 30})

    assert late.status is Status.TIMEOUT
    await until(lambda: trace.read_text().split() == ["waiting", "cancelled"] * 2)


async def test_closing_during_a_call_ends_the_call(env: dict[str, str], trace: Path) -> None:
    box = Toolbox()
    await box.add_mcp(SHOP, env=env)
    task = asyncio.create_task(box.call("wait", {"seconds": 30}))
    await until(lambda: "waiting" in trace.read_text())

    await box.close()
    outcome = await asyncio.wait_for(task, 120)
    after = await box.call("add", {"a": 1})

    assert outcome.status in (Status.ERROR, Status.UNKNOWN)
    assert after.status is Status.ERROR
    assert "closed" in after.text


async def test_a_server_is_closed_while_it_is_being_added(tmp_path: Path) -> None:
    box = Toolbox()
    log = tmp_path / "starts"
    adding = asyncio.create_task(box.add_mcp(raw("mute"), env={"RAW_STARTS": str(log)}))
    await asyncio.wait((adding,), timeout=0.3)
    adding.cancel()

    with pytest.raises(asyncio.CancelledError):
        await adding
    assert dict(box.mcp) == {}
    await box.close()


def test_an_unknown_end_is_recorded_and_recovered(tmp_path: Path, env: dict[str, str]) -> None:
    async def crash() -> Outcome:
        async with Toolbox(store=f"sqlite:///{tmp_path}/calls.db") as box:
            await box.add_mcp(SHOP, env=env)
            await box.call("die")
            [entry] = await box.ledger.list(state="unknown")
            return await box.ledger.settle(entry.call.id, "ok", by="ann", value="it did")

    assert asyncio.run(crash()).value == "it did"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level("INFO", "wieldy.mcp")
    yield
