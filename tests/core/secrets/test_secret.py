"""Secrets appear in no schema, message, receipt or shown text."""

import asyncio
import json
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import quote, quote_plus

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr

from wieldy import (
    Context,
    InvalidArguments,
    Limits,
    Notice,
    Outcome,
    Progress,
    Resource,
    Secret,
    Status,
    Text,
    Toolbox,
    ToolFailed,
)
from wieldy.core.secrets.secret import MASK, redact_data, redact_text

PASSWORD = "hunter2-hunter2"


class Login(BaseModel):
    user: str
    password: SecretStr


class Checked(BaseModel):
    password: SecretStr

    @pydantic.model_validator(mode="after")
    def check(self) -> "Checked":
        raise ValueError(f"{self.password.get_secret_value()} is too weak")


@dataclass(slots=True)
class Slotted:
    password: SecretStr


@dataclass
class Plain:
    password: Secret


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SecretStr]


def everything(outcome: Outcome) -> str:
    """All that an outcome shows."""
    shown = [repr(outcome), outcome.text, json.dumps(outcome.to_dict(), default=repr)]
    return " ".join([*shown, repr(outcome.call), str(outcome.error), repr(outcome.metadata)])


def test_secret_hides_itself_and_gives_itself_when_asked() -> None:
    secret = Secret(PASSWORD)

    assert (str(secret), repr(secret)) == (MASK, f"Secret('{MASK}')")
    assert f"{secret} {[secret]}" == f"{MASK} [Secret('{MASK}')]"
    assert secret.get_secret_value() == PASSWORD
    assert (secret == Secret(PASSWORD), secret == PASSWORD) == (True, False)
    assert len({secret, Secret(PASSWORD)}) == 1
    assert (str(Secret("")), len(secret)) == ("", len(PASSWORD))


@pytest.mark.parametrize("kind", [Secret, SecretStr])
async def test_secret_argument_is_hydrated_and_marked_in_the_schema(kind: Any) -> None:
    box = Toolbox()

    async def login(password: Any) -> Any:
        return password

    login.__annotations__["password"] = kind
    tool = box.add(login)

    assert tool.input_schema["properties"] == {
        "password": {"type": "string", "format": "password", "writeOnly": True}
    }
    for arguments in ({"password": PASSWORD}, json.dumps({"password": PASSWORD})):
        outcome = await box.call("login", arguments)
        assert outcome.value == kind(PASSWORD)
        assert PASSWORD not in everything(outcome)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (Secret, PASSWORD),
        (SecretStr, PASSWORD),
        (SecretBytes, PASSWORD),
        (SecretStr | None, PASSWORD),
        (list[SecretStr], [PASSWORD]),
        (Login, {"user": "u", "password": PASSWORD}),
        (dict[str, Login], {"a": {"user": "u", "password": PASSWORD}}),
        (Slotted, {"password": PASSWORD}),
        (Plain, {"password": PASSWORD}),
        (Extra, {"password": PASSWORD}),
        (pydantic.Secret[str], PASSWORD),
    ],
)
async def test_secret_argument_is_covered_in_what_the_tool_raises_and_shows(
    kind: Any, sent: Any
) -> None:
    box = Toolbox()

    async def fail(given: Any) -> None:
        raise ValueError(f"can't log in with {PASSWORD}")

    async def show(given: Any) -> str:
        return f"logged in with {PASSWORD}"

    for function in (fail, show):
        function.__annotations__["given"] = kind
        box.add(function)

    failed, shown = await box.call("fail", {"given": sent}), await box.call("show", {"given": sent})

    assert failed.text == f"ValueError: can't log in with {MASK}"
    assert shown.text == f"logged in with {MASK}"
    assert PASSWORD not in everything(failed) + everything(shown)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (Annotated[SecretStr, Field(min_length=99)], PASSWORD),
        (Annotated[SecretStr, Field(min_length=99)] | None, PASSWORD),
        (Annotated[SecretStr, Field(max_length=3)] | int, PASSWORD),
        (Login, f"password={PASSWORD}"),
        (Login, json.dumps({"password": PASSWORD})),
        (Login | None, [PASSWORD]),
        (list[Login], [PASSWORD]),
        (Checked, {"password": PASSWORD}),
        (pydantic.Secret[int], PASSWORD),
        (Secret, [PASSWORD]),
        (Secret, {"password": PASSWORD}),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
async def test_refused_secret_argument_is_not_shown(kind: Any, sent: Any, as_text: bool) -> None:
    box = Toolbox()

    async def login(given: Any) -> None: ...

    login.__annotations__["given"] = kind
    box.add(login)

    arguments = {"given": sent}
    outcome = await box.call("login", json.dumps(arguments) if as_text else arguments)

    assert outcome.status is Status.ERROR
    assert "given" in outcome.text
    assert PASSWORD not in everything(outcome)


async def test_receipt_of_a_repaired_secret_does_not_show_it() -> None:
    box = Toolbox()

    async def unlock(pin: pydantic.Secret[int]) -> int:
        return pin.get_secret_value()

    box.add(unlock)
    outcome = await box.call("unlock", {"pin": "12345678"})

    assert outcome.metadata["repairs"] == [{"path": "pin", "kind": "integer_from_text"}]


async def test_preset_secret_reaches_the_function_as_it_declared_it_and_nobody_else() -> None:
    box = Toolbox()

    async def plain(key: str, token: Secret, wrapped: SecretStr) -> list[Any]:
        return [key, token, wrapped]

    async def fail(api_key: str) -> None:
        raise ValueError(f"bad key {api_key!r}")

    presets = {"key": Secret("k-12345678"), "token": Secret("t"), "wrapped": SecretStr("w")}
    tool = box.add(plain, presets=presets)
    box.add(fail, presets={"api_key": "plain-preset"})

    assert (await box.call("plain")).value == ["k-12345678", Secret("t"), SecretStr("w")]
    assert "12345678" not in json.dumps(tool.input_schema) + repr(tool) + tool.fingerprint
    assert (await box.call("fail")).text == f"ValueError: bad key '{MASK}'"


async def test_message_about_wrong_arguments_does_not_show_a_secret_preset() -> None:
    box = Toolbox()

    async def show(token: str, n: int) -> None: ...

    box.add(show, presets={"token": "secret-preset"})
    outcome = await box.call("show", {"n": "it is secret-preset"})

    assert (
        outcome.text
        == f'Invalid arguments for show: n: expected integer, got string "it is {MASK}"'
    )


@given(st.text(st.characters(exclude_characters="*"), min_size=1), st.text(), st.text())
def test_redacted_text_shows_the_secret_in_no_form(secret: str, left: str, right: str) -> None:
    for shown in (secret, json.dumps(secret), repr(secret), json.dumps([{"a": secret}])):
        covered = redact_text(f"{left}{shown}{right}", [secret])
        assert secret not in covered


def test_redaction_covers_the_longest_first_and_leaves_data_as_it_was() -> None:
    data = {"a": ["abcdef", "abc", 5, Secret("x")], "abc": None}

    assert redact_text("abcdef abc", ["abc", "abcdef"]) == f"{MASK} {MASK}"
    assert redact_data(data, ["abc"]) == {"a": [f"{MASK}def", MASK, 5, MASK], MASK: None}
    assert data == {"a": ["abcdef", "abc", 5, Secret("x")], "abc": None}


async def test_an_abandoned_function_that_ends_late_tells_no_secret() -> None:
    heard: list[Outcome] = []
    let_go, ended = threading.Event(), threading.Event()

    def observe(outcome: Outcome) -> None:
        heard.append(outcome)
        if outcome.metadata.get("late"):
            ended.set()

    box = Toolbox(observers=[observe])

    @box.tool(presets={"api_key": PASSWORD}, timeout=0.01)
    def slow(api_key: str) -> str:
        let_go.wait(120)
        return f"the key is {api_key}"

    assert (await box.call("slow")).status is Status.TIMEOUT
    let_go.set()
    assert await asyncio.to_thread(ended.wait, 120)
    assert heard[-1].text == f"the key is {MASK}"
    assert PASSWORD not in "".join(map(everything, heard))


async def test_resources_and_progress_tell_no_secret() -> None:
    box = Toolbox()

    @box.tool(presets={"api_key": PASSWORD})
    async def read(ctx: Context, api_key: str) -> Resource:
        await ctx.progress(1, message=f"with {api_key}")
        await ctx.notice(f"using {api_key}", "debug")
        return Resource(f"http://{api_key}/", text=f"a {api_key}", name=f"of {api_key}")

    shown = [item async for item in box.stream("read")]
    told = [item for item in shown if isinstance(item, Progress)]
    assert [item.message for item in told] == [f"with {MASK}", f"using {MASK}"]
    assert [item.level for item in told if isinstance(item, Notice)] == ["debug"]
    resource = Resource(f"http://{MASK}/", text=f"a {MASK}", name=f"of {MASK}")
    assert [item for item in shown if isinstance(item, Resource)] == [resource]
    assert isinstance(shown[-1], Outcome)
    assert shown[-1].content == (resource,)


def _cause(api_key: str) -> None:
    raise RuntimeError("failed") from ValueError(f"for {api_key}")


def _context(api_key: str) -> None:
    try:
        raise ValueError(f"for {api_key}")
    except ValueError:
        raise RuntimeError("failed")  # noqa: B904 - the point of the test


def _note(api_key: str) -> None:
    error = RuntimeError("failed")
    error.add_note(f"for {api_key}")
    raise error


def _group(api_key: str) -> None:
    raise ExceptionGroup("failed", [ValueError(f"for {api_key}")])


@pytest.mark.parametrize("fails", [_cause, _context, _note, _group])
async def test_an_exception_chained_to_one_with_a_secret_is_not_raised(
    fails: Callable[[str], None],
) -> None:
    box = Toolbox()
    box.add(fails, name="fails", presets={"api_key": PASSWORD})

    with pytest.raises(ToolFailed, match="failed") as caught:
        (await box.call("fails")).unwrap()
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    assert caught.value.original is not None


@dataclass
class Deps:
    token: Secret


@pytest.mark.parametrize(
    "deps", [Secret(PASSWORD), {"token": Secret(PASSWORD)}, Deps(Secret(PASSWORD))]
)
async def test_a_secret_in_deps_is_covered(deps: Any) -> None:
    box = Toolbox()

    @box.tool
    async def use(ctx: Context) -> str:
        return f"with {PASSWORD}"

    assert (await box.call("use", deps=deps)).text == f"with {MASK}"


async def test_a_nested_call_covers_the_secrets_of_the_call_around_it() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool
    async def inner(text: str) -> str:
        return f"got {text}"

    @box.tool(presets={"api_key": PASSWORD})
    async def outer(api_key: str) -> str:
        return (await box.call("inner", {"text": api_key})).text

    assert (await box.call("outer")).text == f"got {MASK}"
    assert [outcome.text for outcome in heard] == [f"got {MASK}"] * 2


def test_a_secret_in_a_url_is_covered() -> None:
    secret = "p/ss w&rd+1"
    for form in (quote(secret), quote(secret, safe=""), quote_plus(secret)):
        assert redact_text(f"http://host/?key={form}", [secret]) == f"http://host/?key={MASK}"


async def test_a_secret_split_over_chunks_is_covered_in_the_outcome() -> None:
    box = Toolbox()

    @box.tool(presets={"api_key": PASSWORD})
    async def spell(api_key: str) -> AsyncIterator[str]:
        for letter in f"<{api_key}>":
            yield letter

    outcome = await box.call("spell")
    assert outcome.content == (Text(f"<{MASK}>"),)
    assert PASSWORD not in everything(outcome)


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_secret_sent_twice_is_not_echoed_where_it_does_not_fit(as_text: bool) -> None:
    box = Toolbox()

    @box.tool
    async def enter(login: Login, others: list[Secret], times: int, kind: Literal["a"]) -> None: ...

    arguments = {
        "login": {"user": "me", "password": PASSWORD},
        "others": ["second-secret"],
        "times": PASSWORD,
        "kind": "second-secret",
    }
    outcome = await box.call("enter", json.dumps(arguments) if as_text else arguments)
    assert isinstance(outcome.error, InvalidArguments)
    assert PASSWORD not in everything(outcome)
    assert "second-secret" not in everything(outcome)


async def test_a_secret_that_an_attempt_learns_is_covered_in_the_outcome() -> None:
    box = Toolbox()

    @box.tool(limits=Limits(retries=1), idempotent=True)
    async def ask(ctx: Context) -> str:
        # As the tools of an MCP server do with the headers of each call.
        ctx._run.keep_secret((PASSWORD,))
        return f"<{PASSWORD}>"

    outcome = await box.call("ask")
    assert outcome.text == f"<{MASK}>"
