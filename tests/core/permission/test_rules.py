"""Standing rules: by name, by argument, and which of them counts."""

import asyncio
import os
import re
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, HttpUrl, RootModel

from wieldy import ActiveCall, Argument, Handler, Outcome, Status, Toolbox
from wieldy.core.choices import PermissionMode

RELATIVE = os.path.relpath("/etc/shadow")


def normal(path: str) -> str:
    # A leading "//" is "/" to a rule, and not to abspath.
    return "/" + os.path.abspath(path).lstrip("/")


def box_with(function: Any, **options: Any) -> Toolbox:
    box = Toolbox()
    box.add(function, name="act", **options)
    return box


async def status(box: Toolbox, **arguments: Any) -> str:
    return (await box.call("act", arguments)).status.value


async def touch(path: str = "/etc/passwd") -> str:
    return path


@pytest.mark.parametrize(
    ("permission", "rules", "expected"),
    [
        ("auto", [], "ok"),
        ("confirm", [], "pending"),
        ("deny", [], "denied"),
        ("auto", ["ask"], "pending"),
        ("auto", ["deny"], "denied"),
        ("confirm", ["allow"], "ok"),
        ("deny", ["allow"], "denied"),
        ("auto", ["allow", "ask"], "pending"),
        ("auto", ["ask", "allow"], "pending"),
        ("confirm", ["allow", "ask", "deny"], "denied"),
        ("confirm", ["deny", "ask", "allow"], "denied"),
    ],
)
async def test_own_deny_then_deny_ask_allow_then_own_permission(
    permission: str, rules: list[str], expected: str
) -> None:
    box = box_with(touch, permission=permission)
    for verdict in rules:
        getattr(box.rules, verdict)("*")
    assert await status(box) == expected


@pytest.mark.parametrize(
    ("mode", "options", "rule", "expected"),
    [
        ("read-only", {"read_only": True}, None, "ok"),
        ("read-only", {}, None, "denied"),
        ("read-only", {}, "allow", "denied"),
        ("read-only", {"read_only": True, "permission": "confirm"}, None, "pending"),
        ("bypass", {"permission": "confirm"}, None, "ok"),
        ("bypass", {}, "ask", "ok"),
        ("bypass", {}, "deny", "denied"),
        ("bypass", {"permission": "deny"}, "allow", "denied"),
    ],
)
async def test_modes(
    mode: PermissionMode, options: dict[str, Any], rule: str | None, expected: str
) -> None:
    box = Toolbox(permission_mode=mode)
    box.add(touch, name="act", **options)
    if rule:
        getattr(box.rules, rule)("act")
    assert await status(box) == expected


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="permission_mode must be one of bypass, accept-edits"):
        Toolbox(permission_mode="yolo")  # type: ignore[arg-type]


async def test_rules_made_later_count_at_once_and_can_be_taken_back() -> None:
    box = box_with(touch)
    assert await status(box) == "ok"
    rule = box.rules.deny("a*", reason="not today")
    outcome = await box.call("act")
    assert (outcome.status, "not today" in outcome.text) == (Status.DENIED, True)
    box.rules.remove(rule)
    assert await status(box) == "ok"
    assert len(box.rules) == 0


async def test_a_rule_may_use_the_name_that_providers_see() -> None:
    box = Toolbox()
    box.add(touch, name="touch it!")
    box.rules.deny(box.schemas("mcp")[0]["name"])
    assert (await box.call("touch it!")).status is Status.DENIED


async def test_a_rule_against_a_name_holds_for_whatever_a_collision_renamed() -> None:
    box = box_with(touch, permission="confirm")
    renamed = [box.add(touch, name="act", permission="confirm", on_conflict="rename").name]
    renamed.append(box.add(touch, name="act_2", permission="confirm", on_conflict="rename").name)
    assert renamed == ["act_2", "act_2_2"]
    box.rules.allow("act")
    assert {(await box.call(name)).status for name in renamed} == {Status.PENDING}
    box.rules.deny("act")
    box.rules.deny("act_2")
    assert {(await box.call(name)).status for name in renamed} == {Status.DENIED}


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/workspace/*", "/workspace/a.txt", True),
        ("/workspace/*", "/workspace/sub/a.txt", False),
        ("/workspace/**", "/workspace/sub/a.txt", True),
        ("/workspace/**/a.txt", "/workspace/a.txt", True),
        ("/workspace/**/a.txt", "/workspace/x/y/a.txt", True),
        ("/**/secret/*", "/a/secret/b/secret/c", True),
        ("/**/secret/*", "/a/secret/b/c", False),
        ("/**", "/a/b", True),
        ("/a/**", "/a", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/../a.py", False),
        ("/workspace/*", "/workspace/../etc/passwd", False),
        ("/workspace/**", "/workspace/../etc/passwd", False),
        ("/workspace/*", "/workspace/./a.txt", True),
        ("/workspace/*", "/workspace//a.txt", True),
        ("/workspace/*", "//workspace/a.txt", True),
        ("/workspace/*", "workspace/a.txt", False),
        ("/workspace/*", "/workspace", False),
        ("/workspace/*", "/workspace2/a.txt", False),
        ("/workspace/?.txt", "/workspace/a.txt", True),
        ("/workspace/[ab].txt", "/workspace/b.txt", True),
        ("/workspace/[!ab].txt", "/workspace/b.txt", False),
        ("https://api.example/*", "https://api.example/users", True),
        ("https://api.example/*", "https://api.example/users/1", False),
        ("https://api.example/v1/**", "https://api.example/v1/../admin", False),
        ("https://api.example/v1/**", "https://api.example/v1/%2e%2e/admin", False),
        ("https://api.example/v1/**", "HTTPS://API.example/v1/users", True),
        ("/etc/", "/etc/passwd", True),
        ("/etc/**", "file:///etc/passwd", False),
        ("https://api.example/*", "https://api.example.evil/users", False),
    ],
)
async def test_paths(pattern: str, path: str, matches: bool) -> None:
    allowing = box_with(touch, permission="confirm")
    allowing.rules.allow("act", where={"path": pattern})
    assert await status(allowing, path=path) == ("ok" if matches else "pending")


@pytest.mark.parametrize(
    "path",
    ["/etc/shadow", "/etc/../etc/shadow", "//etc/shadow", "/x/../etc/shadow", "/etc/./shadow"],
)
async def test_a_denied_path_is_denied_however_it_is_written(path: str) -> None:
    box = box_with(touch)
    box.rules.deny("act", where={"path": "/etc/**"})
    assert await status(box, path=path) == "denied"


async def test_a_relative_path_is_read_from_the_working_directory() -> None:
    box = box_with(touch)
    box.rules.deny("act", where={"path": "/etc/**"})
    assert await status(box, path=RELATIVE) == "denied"


async def test_a_home_path_is_read_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    denying = box_with(touch)
    denying.rules.deny("act", where={"path": "/home/me/**"})
    assert await status(denying, path="~/.ssh/id") == "denied"
    allowing = box_with(touch, permission="confirm")
    allowing.rules.allow("act", where={"path": "/home/me/**"})
    assert await status(allowing, path="~/.ssh/id") == "pending"


async def test_a_default_counts_like_a_sent_value() -> None:
    box = box_with(touch)
    box.rules.deny("act", where={"path": "/etc/*"})
    assert await status(box) == "denied"


async def test_a_repaired_argument_counts_under_its_right_name() -> None:
    box = box_with(touch)
    box.rules.deny("act", where={"path": "/etc/*"})
    assert await status(box, Path="/etc/passwd") == "denied"


async def test_a_list_is_denied_by_one_item_and_allowed_only_by_all() -> None:
    async def act(paths: list[Path]) -> int:
        return len(paths)

    denying = box_with(act)
    denying.rules.deny("act", where={"paths": "/etc/*"})
    assert await status(denying, paths=["/tmp/a", "/etc/b"]) == "denied"
    assert await status(denying, paths=["/tmp/a"]) == "ok"
    allowing = box_with(act, permission="confirm")
    allowing.rules.allow("act", where={"paths": "/tmp/*"})
    assert await status(allowing, paths=["/tmp/a", "/etc/b"]) == "pending"
    assert await status(allowing, paths=["/tmp/a", "/tmp/b"]) == "ok"
    assert await status(allowing, paths=[]) == "pending"


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Order(BaseModel):
    amount: int
    note: str = ""


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"count": 1}, "denied"),
        ({"count": [2, 3]}, "ok"),
        ({"count": [1, 2]}, "denied"),
        ({"count": lambda n: n > 0}, "denied"),
        ({"count": lambda n: n.missing}, "denied"),
        ({"level": "high"}, "denied"),
        ({"order.amount": lambda n: n > 10}, "denied"),
        ({"order.note": "urgent*"}, "ok"),
        ({"level": "high", "count": 2}, "ok"),
    ],
)
async def test_argument_matchers(where: dict[str, Any], expected: str) -> None:
    async def act(count: int, level: Level, order: Order) -> None: ...

    box = box_with(act)
    box.rules.deny("act", where=where)
    assert await status(box, count=1, level="high", order={"amount": 99}) == expected


class Edit(BaseModel):
    path: str
    target: str = Field("", alias="filePath")


@dataclass
class Move:
    source: str


class Name(RootModel[str]):
    pass


def denied_cases() -> list[Any]:  # noqa: C901 - one small function for each type
    async def url(it: HttpUrl) -> None: ...
    async def edits(it: list[Edit]) -> None: ...
    async def edit(it: Edit) -> None: ...
    async def move(it: Move) -> None: ...
    async def ident(it: UUID) -> None: ...
    async def raw(it: bytes) -> None: ...
    async def root(it: Name) -> None: ...
    async def queue(it: deque[str]) -> None: ...
    async def once(it: Iterable[str]) -> None: ...
    async def amount(it: float) -> None: ...
    async def exact(it: Decimal) -> None: ...
    async def table(it: dict[str, str]) -> None: ...
    async def text(it: str) -> None: ...

    number = "12345678-1234-5678-1234-567812345678"
    return [
        (url, {"it": "https://internal.corp/**"}, "https://internal.corp/x"),
        (url, {"it": "https://internal.corp/**"}, "HTTPS://Internal.corp/x"),
        (edits, {"it.path": "/etc/**"}, [{"path": "/tmp/a"}, {"path": "/etc/passwd"}]),
        (edits, {"it": "/etc/**"}, [{"path": "/etc/passwd"}]),
        (edit, {"it.filePath": "/etc/**"}, {"path": "", "filePath": "/etc/x"}),
        (edit, {"it.target": "/etc/**"}, {"path": "", "filePath": "/etc/x"}),
        (move, {"it.source": "/etc/**"}, {"source": "/etc/x"}),
        (ident, {"it": "12345678-*"}, number),
        (raw, {"it": "/etc/**"}, "/etc/x"),
        (root, {"it": "/etc/**"}, "/etc/x"),
        (queue, {"it": "/etc/**"}, ["/tmp/a", "/etc/x"]),
        (once, {"it": "/etc/**"}, ["/tmp/a", "/etc/x"]),
        (amount, {"it": 100}, 100.0),
        (exact, {"it": 100}, "100.0"),
        (table, {"it": "/etc/**"}, {"a": "/tmp/x", "b": "/etc/x"}),
        (text, {"it": "/etc/"}, "/etc/x"),
        (text, {"it": "/etc/**"}, "/etc"),
        (text, {"it": "/etc/**"}, "file:///etc/passwd"),
        (text, {"it": "https://x.y/a/**"}, "https://x.y/b/%2e%2e/a/c"),
    ]


@pytest.mark.parametrize(("function", "where", "value"), denied_cases())
async def test_a_denial_holds_whatever_type_the_argument_has(
    function: Any, where: dict[str, Any], value: Any
) -> None:
    box = box_with(function)
    box.rules.deny("act", where=where)
    outcome = await box.call("act", {"it": value})
    assert outcome.status is Status.DENIED, outcome


async def test_a_home_pattern_means_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    box = box_with(touch)
    box.rules.deny("act", where={"path": "~/.ssh/**"})
    assert await status(box, path="/home/me/.ssh/id") == "denied"
    assert await status(box, path="~/.ssh/id") == "denied"
    assert await status(box, path="/home/me/notes") == "ok"


@pytest.mark.parametrize(
    "options",
    [
        {"validation": "describe"},
        {"input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
    ],
)
async def test_a_default_counts_also_where_arguments_are_not_hydrated(
    options: dict[str, Any],
) -> None:
    box = box_with(touch, **options)
    box.rules.deny("act", where={"path": "/etc/*"})
    assert await status(box) == "denied"


@pytest.mark.parametrize("bound", [partial(touch, "/etc/x"), partial(touch, path="/etc/x")])
async def test_what_a_partial_binds_counts(bound: Any) -> None:
    box = box_with(bound)
    box.rules.deny("act", where={"path": "/etc/*"})
    assert await status(box) == "denied"


async def test_a_rule_made_while_a_call_waits_in_middleware_counts() -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def wait(active: ActiveCall, proceed: Handler) -> Outcome:
        reached.set()
        await go.wait()
        return await proceed(active)

    box = Toolbox(middleware=[wait])
    box.add(touch, name="act")
    task = asyncio.create_task(status(box))
    await asyncio.wait_for(reached.wait(), 120)
    box.rules.deny("act")
    go.set()
    assert await task == "denied"


def test_rules_made_from_another_thread_are_never_missed() -> None:
    async def race() -> None:
        for _ in range(200):
            box = box_with(touch)
            denying = threading.Thread(target=box.rules.deny, args=("act",))
            denying.start()
            await status(box)
            denying.join(120)
            assert await status(box) == "denied"

    asyncio.run(race())


async def test_a_failing_matcher_never_allows() -> None:
    box = box_with(touch, permission="confirm")
    box.rules.allow("act", where={"path": lambda path: path.missing})
    assert await status(box) == "pending"


async def test_rules_speak_the_names_that_the_model_sees() -> None:
    async def act(from_: Annotated[str, Field(alias="from")] = "/etc/x") -> str:
        return from_

    box = box_with(act)
    box.rules.deny("act", where={"from": "/etc/*"})
    assert await status(box) == "denied"
    assert await status(box, **{"from": "/tmp/x"}) == "ok"

    derived = Toolbox()
    tool = box_with(touch).get("act")
    assert tool is not None
    derived.add(tool.derive(arguments={"path": Argument(name="file")}))
    derived.rules.deny("act", where={"file": "/etc/*"})
    assert await status(derived, file="/etc/x") == "denied"
    assert await status(derived, file="/tmp/x") == "ok"


async def test_rules_see_presets_as_they_will_run() -> None:
    box = box_with(touch, presets={"path": "/etc/x"})
    box.rules.deny("act", where={"path": "/etc/*"})
    assert await status(box) == "denied"


async def test_a_hostile_path_takes_bounded_time() -> None:
    box = box_with(touch, permission="confirm")
    box.rules.allow("act", where={"path": "/**/a/**/a/**/a/**/b"})
    assert await status(box, path="/a" * 50_000) == "pending"


@given(st.text(alphabet="ab./~*", max_size=12))
async def test_no_spelling_of_a_path_leaves_an_allowed_folder(path: str) -> None:
    box = box_with(touch, permission="confirm")
    box.rules.allow("act", where={"path": "/a/**"})
    if await status(box, path=path) == "ok":
        assert normal(path).startswith("/a/")


async def test_a_rule_of_one_agent_or_session_holds_for_no_other() -> None:
    box = box_with(touch, permission="confirm")
    rule = box.rules.allow("act", agent="ann")
    assert [(await box.view(agent=each).call("act")).status.value for each in ("ann", "bob")] == [
        "ok",
        "pending",
    ]
    assert await status(box) == "pending"
    box.rules.remove(rule)
    box.rules.allow("act", session="s")
    box.rules.deny("act", session="t")
    found = [(await box.call("act", session=each)).status.value for each in ("s", "t", "u", None)]
    assert found == ["ok", "denied", "pending", "pending"]


@pytest.mark.parametrize(
    ("verdict", "path", "expected"),
    [
        ("deny", "ls; rm -rf /", "denied"),
        ("deny", "ls", "pending"),
        ("allow", "rm a", "ok"),
        ("allow", "ls; rm a", "pending"),
        ("allow", "rm a; ls", "pending"),
    ],
)
async def test_an_expression_is_found_anywhere_by_what_restricts_and_whole_by_what_allows(
    verdict: str, path: str, expected: str
) -> None:
    box = box_with(touch, permission="confirm")
    getattr(box.rules, verdict)("act", {"path": re.compile("rm -?\\w+")})
    assert await status(box, path=path) == expected


def test_conditions_that_name_no_argument_are_refused() -> None:
    with pytest.raises(TypeError, match="where names arguments"):
        Toolbox().rules.deny("act", where="/etc/**")  # type: ignore[arg-type]
