"""The lock: what it keeps, when it is refused, and what it holds back in a toolbox."""

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import LockError, Parked, Status, Tool, Toolbox
from wieldy.core.choices import ChangePolicy, PermissionMode
from wieldy.lock.lock_review import find_lock_state
from wieldy.mcp.lock import Lock

SERVER = "mcp:shop"


async def answer(**arguments: Any) -> str:
    return f"ran with {arguments}"


def shop_tool(description: str = "Buy a thing.", **changes: Any) -> Tool:
    """A tool as it comes from a server."""
    schema = {"type": "object", "properties": {"thing": {"type": "string"}}}
    facts = {"name": "buy", "input_schema": schema, "source": SERVER, **changes}
    return Tool(answer, description=description, **facts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock on one tool of a server."""
    path = tmp_path / "tools.lock"
    Lock.of([shop_tool()]).write(path)
    return path


def test_a_lock_reads_back_what_was_written_and_nothing_has_changed(path: Path) -> None:
    lock = Lock.read(path)

    assert lock.text() == path.read_text() == Lock.of([shop_tool()]).text()
    assert not lock.compare([shop_tool()])
    assert lock.tools["buy"].fingerprint == shop_tool().fingerprint


def test_a_lock_does_not_depend_on_the_order_of_tools_or_of_properties() -> None:
    properties: dict[str, Any] = {"a": {"type": "string"}, "b": {"type": "integer"}}
    backwards = dict(reversed(properties.items()))
    one = shop_tool(name="one", input_schema={"type": "object", "properties": properties})
    same = shop_tool(name="one", input_schema={"properties": backwards, "type": "object"})

    assert Lock.of([one, shop_tool()]).text() == Lock.of([shop_tool(), same]).text()


def test_the_file_has_a_line_for_each_line_of_a_description(tmp_path: Path) -> None:
    before = Lock.of([shop_tool("First.\nSecond.\nThird.")]).text().splitlines()
    after = Lock.of([shop_tool("First.\nOther.\nThird.")]).text().splitlines()

    differ = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [pair for pair in differ if "fingerprint" not in pair[0]] == [
        ('        "Second.",', '        "Other.",')
    ]


def test_the_tools_of_inactive_groups_and_those_held_back_are_locked(path: Path) -> None:
    box = Toolbox(lock=path)
    box.groups.create("later")
    box.add(lambda: None, name="sleeping", group="later")
    box.add(shop_tool("Another."))

    assert box.names == []
    assert list(Lock.of(box).tools) == ["buy", "sleeping"]
    assert list(Lock.of(box.view(names="sleeping")).tools) == ["sleeping"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"description": "Buy two things."}, "description"),
        ({"description": "Buy a thing.\u200b"}, "description"),
        ({"input_schema": {"type": "object", "properties": {}}}, "input_schema"),
        ({"output_schema": {"type": "integer"}}, "output_schema"),
        ({"read_only": True}, "traits"),
        ({"source": "mcp:other"}, "source"),
    ],
)
def test_any_word_of_a_definition_counts(path: Path, changes: dict[str, Any], field: str) -> None:
    changes = dict(changes)
    changed = Lock.read(path).compare(
        [shop_tool(changes.pop("description", "Buy a thing."), **changes)]
    )

    [change] = changed.changed
    assert (change.name, change.kind, change.fields) == ("buy", "changed", [field])
    assert changed and not changed.added and not changed.removed


def test_tools_that_came_and_went_are_told_apart(path: Path) -> None:
    changes = Lock.read(path).compare([shop_tool(name="sell")])

    assert [(each.name, each.kind) for each in changes] == [("sell", "added"), ("buy", "removed")]


def test_a_diff_shows_the_lines_that_differ_and_makes_the_hidden_visible(path: Path) -> None:
    [change] = Lock.read(path).compare([shop_tool("Buy\u202e a thing.\x1b[2J")]).changed

    lines = change.diff()

    assert '-    "Buy a thing."' in lines
    assert '+    "Buy\\u202e a thing.\\u001b[2J"' in lines
    assert "".join(lines).isprintable()


def test_functions_are_locked_by_their_signature_and_docstring(tmp_path: Path) -> None:
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    box, path = Toolbox(), tmp_path / "tools.lock"
    box.add(add)
    Lock.of(box).write(path)

    assert not Lock.read(path).compare(box)
    box.add(lambda a: a, name="add", description="Add.", on_conflict="override")
    assert Lock.read(path).compare(box).changed[0].fields == ["input_schema", "output_schema"]


WORDS = st.text(st.characters(), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(name=WORDS.filter(bool), description=WORDS, default=VALUES, source=WORDS)
def test_whatever_a_server_says_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, description: str, default: Any, source: str
) -> None:
    schema = {"type": "object", "properties": {"x": {"default": default}}}
    tool = shop_tool(description, name=name, input_schema=schema, source=source)
    path = tmp_path_factory.mktemp("lock") / "tools.lock"

    Lock.of([tool]).write(path)

    assert not Lock.read(path).compare([tool])
    assert path.read_text().replace("\n", "").isprintable()


def _edit(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def edit(text: str) -> str:
        data = json.loads(text)
        change(data)
        return json.dumps(data)

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda text: "", "not the JSON it was"),
        (lambda text: text[:-20], "not the JSON it was"),
        (lambda text: f"<<<<<<< ours\n{text}", "not the JSON it was"),
        (lambda text: "[" * 100_000, "not the JSON it was"),
        (lambda text: text.replace('"tools": {', '"tools": {}, "tools": {'), "a name comes twice"),
        (lambda text: "[]", "not a lock of wieldy"),
        (lambda text: '{"tools": {}}', "not a lock of wieldy"),
        (_edit(lambda data: data.update(more=1)), "not a lock of wieldy"),
        (_edit(lambda data: data.update(wieldy_lock=True)), "not a lock of wieldy"),
        (_edit(lambda data: data.update(wieldy_lock=2)), "Upgrade wieldy"),
        (_edit(lambda data: data.update(tools=[])), "not as it was written"),
        (_edit(lambda data: data["tools"]["buy"].pop("traits")), "buy.traits is not as"),
        (_edit(lambda data: data["tools"]["buy"].update(extra=1)), "buy.extra is not as"),
        (_edit(lambda data: data["tools"]["buy"].update(description="x")), "buy.description"),
        (_edit(lambda data: data["tools"]["buy"]["description"].append("x")), "does not fit"),
        (_edit(lambda data: data["tools"]["buy"].update(fingerprint="0" * 64)), "does not fit"),
        (_edit(lambda data: data["tools"].update(sell=data["tools"]["buy"])), "does not fit"),
    ],
)
def test_a_lock_that_is_not_as_it_was_written_is_refused(
    path: Path, edit: Callable[[str], str], said: str
) -> None:
    path.write_text(edit(path.read_text()))

    with pytest.raises(LockError, match=said) as caught:
        Lock.read(path)
    assert caught.value.path == str(path)
    with pytest.raises(LockError):
        Toolbox(lock=path)


def test_what_is_not_text_or_not_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tools.lock").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "tools.lock", tmp_path):
        with pytest.raises(LockError, match="can't be read"):
            Toolbox(lock=path)
    with pytest.raises(LockError, match="there is no such file"):
        Lock.read(tmp_path / "none")


def test_a_lock_that_can_t_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="can't be written"):
        Lock.of([shop_tool()]).write(tmp_path / "none" / "tools.lock")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LockError, match="can't be written"):
        Lock.of([shop_tool()]).write(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_reader_finds_a_whole_lock_while_others_write(path: Path) -> None:
    locks = [Lock.of([shop_tool(str(number) * 50_000)]) for number in range(3)]
    texts = {path.read_text(), *(lock.text() for lock in locks)}
    writers = [
        threading.Thread(target=lambda lock=lock: [lock.write(path) for _ in range(20)])
        for lock in locks
    ]

    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_text() in texts
    for writer in writers:
        writer.join()

    assert os.listdir(path.parent) == ["tools.lock"]


def test_writing_through_a_link_keeps_the_link(path: Path) -> None:
    link = path.with_name("link.lock")
    link.symlink_to(path)

    Lock.of([]).write(link)

    assert link.is_symlink()
    assert len(Lock.read(path)) == 0


async def test_a_tool_that_is_as_it_was_locked_runs(path: Path) -> None:
    box = Toolbox(lock=path)
    box.add(shop_tool())

    assert (await box.call("buy", {"thing": "tea"})).value == "ran with {'thing': 'tea'}"


async def test_a_changed_tool_is_blocked_and_the_refusal_says_what_to_do(path: Path) -> None:
    box = Toolbox(lock=path)
    box.add(shop_tool("Buy everything."))

    outcome = await box.call("buy", {"thing": "tea"})

    assert (box.names, box.schemas()) == ([], [])
    assert outcome.status is Status.DENIED
    assert outcome.text == (
        f"The call of buy was denied: its description changed since it was locked in {path}. "
        "Somebody has to look at the change, and lock it if it is fine."
    )


@pytest.mark.parametrize("mode", ["ask", "bypass"])
async def test_no_rule_and_no_mode_lets_a_blocked_tool_run(
    path: Path, mode: PermissionMode
) -> None:
    box = Toolbox(lock=path, permission_mode=mode)
    box.rules.allow("*")
    box.add(shop_tool("Buy everything."))

    assert (await box.call("buy")).status is Status.DENIED
    assert (await box.view(names="buy").call("buy")).status is Status.DENIED


async def test_a_tool_from_outside_that_nobody_locked_is_blocked(path: Path) -> None:
    box = Toolbox(lock=path)
    box.add(shop_tool(name="sell"))
    box.add(lambda: "mine", name="own")

    outcome = await box.call("sell")

    assert box.names == ["own"]
    assert f"it is not in {path}. Somebody has to look at it and lock it." in outcome.text
    assert (await box.call("own")).value == "mine"


async def test_without_a_lock_file_nothing_from_outside_is_offered(tmp_path: Path) -> None:
    box = Toolbox(lock=tmp_path / "tools.lock")
    box.add(shop_tool())

    assert "tools.lock, which does not exist" in (await box.call("buy")).text
    Lock.of(box).write(tmp_path / "tools.lock")
    again = Toolbox(lock=tmp_path / "tools.lock")
    again.add(shop_tool())
    assert (await again.call("buy")).ok


async def test_a_tool_that_changes_while_the_box_runs_is_blocked_and_comes_back(path: Path) -> None:
    box = Toolbox(lock=path)
    box.add(shop_tool())
    assert (await box.call("buy")).ok

    box.add(shop_tool("Buy everything."), on_conflict="override")
    assert (await box.call("buy")).status is Status.DENIED

    box.add(shop_tool(), on_conflict="override")
    assert (await box.call("buy")).ok


async def test_a_blocked_tool_stays_blocked_under_another_name(path: Path) -> None:
    box = Toolbox(lock=path)
    held = box.add(shop_tool("Buy everything."))
    box.add(held.derive(name="purchase"))
    box.add(shop_tool("Buy everything."), on_conflict="rename")

    for name in ("purchase", "buy_2"):
        assert (await box.call(name)).status is Status.DENIED


async def test_a_parked_call_does_not_run_after_its_tool_changed(path: Path) -> None:
    box = Toolbox(lock=path)
    box.rules.ask("buy")
    box.add(shop_tool())
    receipt = await box.call("buy")

    box.add(shop_tool("Buy everything."), on_conflict="override")

    assert (await box.approve(receipt.call.id)).status is Status.PENDING


@pytest.mark.parametrize("mode", ["ask", "bypass"])
async def test_each_call_of_a_quarantined_tool_asks_a_person(
    path: Path, mode: PermissionMode
) -> None:
    box = Toolbox(lock=path, on_change="quarantine", permission_mode=mode)
    box.rules.allow("*")
    box.add(shop_tool("Buy everything."))

    for _ in range(2):
        receipt = await box.call("buy", {"thing": "tea"})
        [parked] = await box.pending()
        assert (receipt.status, parked.id) == (Status.PENDING, receipt.call.id)
        assert str(parked.reason).startswith("its description changed since it was locked")
        assert (await box.approve(receipt.call.id)).value == "ran with {'thing': 'tea'}"
    assert box.names == ["buy"]


async def test_an_approver_is_shown_why_a_tool_is_in_quarantine(path: Path) -> None:
    reasons = []

    def approver(parked: Parked) -> bool:
        reasons.append(parked.reason)
        return False

    box = Toolbox(lock=path, on_change="quarantine", approver=approver)
    box.add(shop_tool(name="sell"))

    assert (await box.call("sell")).status is Status.DENIED
    assert reasons == [f"it is not in {path}. Somebody has to look at it and lock it."]


async def test_a_denial_counts_more_than_a_quarantine(path: Path) -> None:
    box = Toolbox(lock=path, on_change="quarantine")
    box.rules.deny("buy", where={"thing": "gold"}, reason="no gold")
    box.add(shop_tool("Buy everything."))
    strict = Toolbox(lock=path, on_change="quarantine", permission_mode="read-only")
    strict.add(shop_tool("Buy everything."))

    assert "no gold" in (await box.call("buy", {"thing": "gold"})).text
    assert (await box.call("buy", {"thing": "tea"})).status is Status.PENDING
    assert "only read-only tools may run" in (await strict.call("buy")).text


async def test_a_warning_is_logged_once_and_the_tool_works(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = Toolbox(lock=path, on_change="warn")
    for _ in range(3):
        box.add(shop_tool("Buy everything.\x1b[2J"), on_conflict="override")
    box.add(shop_tool(name="se\x1b[2Jll"))

    assert (await box.call("buy")).ok
    logged = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(" since")[0] for record in logged] == [
        "Tool buy: its description changed",
        f"Tool se\\x1b[2Jll: it is not in {path}. Somebody has to look at it and lock it. (warn). "
        "See `wieldy diff` and `wieldy lock`.",
    ]


@pytest.mark.parametrize("on_change", ["block", "warn"])
def test_each_tool_tells_how_it_stands_to_the_lock(path: Path, on_change: ChangePolicy) -> None:
    box = Toolbox(lock=path, on_change=on_change)
    changed = box.add(shop_tool("Buy everything.\x1b[2J"))
    new = box.add(shop_tool(name="sell"))
    own = box.add(lambda: None, name="own")
    same = Toolbox(lock=path).add(shop_tool())

    states = [find_lock_state(box.review, tool) for tool in (changed, new, own, same)]
    assert [each.state for each in states] == ["changed", "new", "none", "locked"]
    assert [each.reason is None for each in states] == [False, False, True, True]
    assert '+    "Buy everything.\\u001b[2J"' in states[0].diff
    assert all(line[0] in "+@-" for line in states[1].diff.split("\n"))
    assert find_lock_state(Toolbox().review, same).state == "none"


def test_a_diff_of_any_length_is_cut(path: Path) -> None:
    box = Toolbox(lock=path, on_change="warn")
    tool = box.add(shop_tool("\n".join(map(str, range(5000)))))
    diff = find_lock_state(box.review, tool).diff
    assert len(diff.split("\n")) == 1001
    assert diff.endswith("more lines; see `wieldy diff`)")


@pytest.mark.parametrize("given", [{"on_change": "ignore"}, {"on_change": "Block"}])
def test_an_unknown_setting_is_refused(path: Path, given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="on_change must be one of block, quarantine, warn"):
        Toolbox(lock=path, **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pass lock="):
        Toolbox(**given)  # type: ignore[arg-type]


async def test_two_thousand_tools_are_held_to_their_lock(tmp_path: Path) -> None:
    tools = [shop_tool(f"Tool {number}.", name=f"tool_{number}") for number in range(2_000)]
    path = tmp_path / "tools.lock"
    Lock.of(tools).write(path)

    box = Toolbox(lock=path)
    for tool in tools[:-1]:
        box.add(tool)
    box.add(tools[-1].replace(description="Other."))

    assert len(box) == 1_999
    assert [each.name for each in Lock.read(path).compare(box)] == ["tool_1999"]
