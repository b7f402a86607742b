"""Conditions that can't meet their argument: told when the rule is made, and never in favour."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from wieldy import Tool, Toolbox


class Line(BaseModel):
    """A line of an order."""

    text: str = Field("", alias="words")

    @property
    def length(self) -> int:
        return len(self.text)


class Order(BaseModel):
    """An order."""

    amount: int = 150
    lines: list[Line] = [Line(words="tea")]


def pay(
    amount: int,
    to: str = "x",
    each: list[str] | None = None,
    sure: bool = False,
    kind: Literal["card", "cash"] = "card",
    order: Order = Order(),  # noqa: B008 - never changed
) -> str:
    """Pay."""
    return f"paid {amount}"


def any_of(amount: int | str, **others: Any) -> str:
    """Take anything."""
    return "ok"


@pytest.mark.parametrize(
    "condition",
    [{"gt": 100}, {"regex": "x"}, [], [{"gt": 1}], b"x", re.compile(b"x"), object(), float("nan")],
)
async def test_a_shape_that_can_not_be_read_is_a_type_error(condition: Any, tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/a.db") as box:
        for verdict in ("allow", "ask", "deny"):
            with pytest.raises(TypeError, match="a condition on an argument is"):
                getattr(box.rules, verdict)("pay", where={"amount": condition})
        with pytest.raises((TypeError, ValueError)):
            await box.standing.deny("pay", where={"amount": condition})
        with pytest.raises(TypeError, match="where names arguments"):
            box.rules.deny("pay", where={1: "x"})  # type: ignore[dict-item]
        assert len(box.rules) == 0


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"amount": ">100"}, "'amount' of pay is integer"),
    ({"amount": "5*"}, "'amount' of pay is integer"),
    ({"amount": re.compile("5")}, "'amount' of pay is integer"),
    ({"amount": True}, "'amount' of pay is integer"),
    ({"amount": None}, "'amount' of pay is integer"),
    ({"amount": ["a", "b"]}, "'amount' of pay is integer"),
    ({"to": 5}, "'to' of pay is string"),
    ({"sure": "yes"}, "'sure' of pay is boolean"),
    ({"amout": 100}, "pay has no argument 'amout', but 'amount'"),
    ({"filter.amount": 100}, "pay has no argument 'filter.amount'"),
    ({"order.amout": 5}, "pay has no argument 'order.amout'"),
    ({"order.amount": "5*"}, "'order.amount' of pay is integer"),
    ({"order.lines.words": 5}, "'order.lines.words' of pay is string"),
]
# They can be compared with what is sent, and are never equal to it.
UNEQUAL: list[tuple[dict[str, Any], str]] = [
    ({"amount": 5.5}, "'amount' of pay is integer"),
    ({"kind": "coins"}, "'kind' of pay is 'card' or 'cash'"),
    ({"kind": re.compile("coin")}, "'kind' of pay is 'card' or 'cash'"),
    ({"each": 5}, "'each' of pay is null or string"),
    ({"amount": float("inf")}, "'amount' of pay is integer"),
]


@pytest.mark.parametrize(("where", "told"), [*MISFITS, *UNEQUAL], ids=str)
async def test_a_condition_that_can_not_meet_its_argument_is_told_when_the_rule_is_made(
    where: dict[str, Any], told: str, tmp_path: Path
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/a.db") as box:
        box.add(pay)
        for verdict in ("allow", "ask", "deny"):
            with pytest.raises(ValueError, match=told):
                getattr(box.rules, verdict)("p*", where=where)
        with pytest.raises(ValueError, match=told):
            await box.standing.deny("pay", where=where)
        assert len(box.rules) == 0


@pytest.mark.parametrize(("where", "told"), MISFITS, ids=str)
async def test_if_the_tool_comes_later_it_restricts_and_does_not_allow(
    where: dict[str, Any], told: str
) -> None:
    denying, allowing = Toolbox(), Toolbox()
    denying.rules.deny("pay", where=where)
    allowing.rules.allow("pay", where=where)
    denying.add(pay)
    allowing.add(pay, permission="confirm")

    if where not in ({"amount": None},):
        # Nothing is known to be no number, so that can be compared.
        assert (await denying.call("pay", {"amount": 150})).status == "denied"
    assert (await allowing.call("pay", {"amount": 150})).status == "pending"


@pytest.mark.parametrize(
    "where",
    [
        {"amount": 100}, {"amount": [100, "a"]}, {"to": "a*"}, {"each": "/etc/**"}, {"each": None},
        {"sure": True}, {"amount": lambda value: value > 100}, {"amount": 7.0}, {"kind": "cas*"},
        {"kind": lambda value: value == "cash"}, {"order.amount": 100}, {"order.lines": "/etc/**"},
        {"order.lines.words": "coffee"}, {"order.lines.text": "coffee"}, {"order.lines.length": 9},
    ],
)  # fmt: skip
async def test_a_condition_that_can_meet_its_argument_is_compared(where: dict[str, Any]) -> None:
    box = Toolbox()
    box.add(pay)
    box.rules.deny("pay", where=where)

    sent = {"amount": 5, "to": "b", "each": ["x"]}
    assert (await box.call("pay", sent)).ok


async def test_one_tool_of_many_that_has_the_argument_is_enough() -> None:
    box = Toolbox()
    box.add(pay)
    box.add(any_of, name="pay_any")
    box.rules.deny("pay*", where={"whatever": "x"})
    box.rules.deny("pay*", where={"amount": "many"})

    assert (await box.call("pay", {"amount": 5})).status == "denied"
    assert (await box.call("pay_any", {"amount": "few"})).ok
    assert (await box.call("pay_any", {"amount": "many"})).status == "denied"


async def test_a_part_that_can_not_be_compared_does_not_speak_for_the_others() -> None:
    box = Toolbox()

    @box.tool
    def save(data: dict[str, Any]) -> str:
        """Save."""
        return "saved"

    box.rules.deny("save", where={"data": "/etc/**"})

    assert (await box.call("save", {"data": {"path": "/tmp/x", "size": 5}})).ok
    assert (await box.call("save", {"data": {"path": "/etc/x", "size": 5}})).status == "denied"


EMBEDDED = [
    "[::a9fe:a9fe]", "[::ffff:a9fe:a9fe]", "[::ffff:169.254.169.254]", "[::169.254.169.254]",
    "[::ffff:0:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::]",
    "[fe80::5efe:a9fe:a9fe]", "[2001:0:102:304::5601:5601]", "2852039166", "0xa9fea9fe",
    "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1:12a9:fe:a9fe::]", "[64:ff9b:1:1234:a9:fea9:fe00:0]",
    "0251.0376.0251.0376", "169.254.43518", "①⑥⑨.254.169.254",
]  # fmt: skip


@pytest.mark.parametrize("host", EMBEDDED)
async def test_a_denied_address_is_denied_in_whatever_contains_it(host: str) -> None:
    box = Toolbox()

    @box.tool
    def fetch(url: str) -> str:
        """Fetch."""
        return "a page"

    for pattern in ("http://169.254.169.254/**", "http://169.254.*/**", "169.254.169.254"):
        rule = box.rules.deny("fetch", where={"url": pattern})
        assert (await box.call("fetch", {"url": f"http://{host}/x"})).status == "denied", pattern
        assert (await box.call("fetch", {"url": "http://[2606:4700::1111]/x"})).ok
        box.rules.remove(rule)


@pytest.mark.parametrize("host", EMBEDDED)
async def test_a_denied_address_is_denied_in_a_text_that_is_no_url(host: str) -> None:
    box = Toolbox()

    @box.tool
    def connect(host: str) -> str:
        """Connect."""
        return "a connection"

    for pattern in ("169.254.169.254", "169.254.*", "*.*.169.254", "169.254.169.254/**"):
        rule = box.rules.deny("connect", where={"host": pattern})
        rest = "/x" if "/" in pattern else ""
        for text in (host, f"{host}:80", host.strip("[]")):
            outcome = await box.call("connect", {"host": text + rest})
            assert outcome.status == "denied", (pattern, text)
        for text in ("[2606:4700::1111]", "8.8.8.8", "example.com", "5", "1.2", "::x"):
            assert (await box.call("connect", {"host": text + rest})).ok
        box.rules.remove(rule)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("1.2.*", "1.3"), ("2024-*", "2852039166"), ("c:*", "d:x"), ("5*", "0x5"), ("0.*", "5")],
)
async def test_what_is_no_address_is_not_taken_for_one(pattern: str, text: str) -> None:
    box = Toolbox()
    box.add(any_of, name="show")
    box.rules.deny("show", where={"amount": pattern})

    assert (await box.call("show", {"amount": text})).ok


async def test_an_address_that_is_allowed_allows_nothing_that_it_contains() -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    def fetch(url: str) -> str:
        """Fetch."""
        return "a page"

    box.rules.allow("fetch", where={"url": "http://[64:ff9b::a9fe:a9fe]/**"})

    assert (await box.call("fetch", {"url": "http://[64:ff9b::a9fe:a9fe]/x"})).ok
    assert (await box.call("fetch", {"url": "http://169.254.169.254/x"})).status == "pending"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"destructive": True}, "does not run what is destructive"),
        ({"open_world": True}, "does not run what is open-world"),
        (
            {"source": "mcp:shop", "trusted": False, "cautious": True},
            "destructive for all that was declared and open-world for all that was declared",
        ),
    ],
)
async def test_in_accept_edits_the_explanation_names_the_trait(
    options: dict[str, Any], told: str
) -> None:
    box = Toolbox(permission_mode="accept-edits")
    box.add(Tool(pay, permission="confirm", **options))

    assert told in (await box.explain_permission("pay", {"amount": 1})).because
