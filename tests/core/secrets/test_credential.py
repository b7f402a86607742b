"""What counts as a secret among presets: marked values and credentials, and nothing else."""

import base64
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import MagicMock, Mock

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, ConfigDict, PostgresDsn, SecretBytes, SecretStr

from wieldy import Argument, Context, Secret, Tool, Toolbox
from wieldy.core.secrets.credential import held_secrets, is_credential, preset_secrets
from wieldy.core.secrets.secret import MASK

KEY = "hunter2-hunter2"


@dataclass(slots=True)
class Slotted:
    token: str = KEY


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    password: str = KEY


class Settings:
    def __init__(self) -> None:
        self.db_password = KEY


class Pair(NamedTuple):
    user: str
    password: str


async def show(**_: Any) -> str:
    """Tell what must not be told."""
    return f"it is {KEY}"


async def said(presets: dict[str, Any], function: Any = show) -> str:
    box = Toolbox()
    box.add(function, name="show", input_schema={"type": "object"}, presets=presets)
    return (await box.call("show")).text


@pytest.mark.parametrize(
    "name",
    [
        "token", "access_token", "accessToken", "AccessToken", "ACCESS_TOKEN", "X-Auth-Token",
        "GITHUB_PERSONAL_ACCESS_TOKEN", "idToken", "IDToken", "token2", "bot.token",
        "password", "DB_PASSWORD", "dbPassword", "passwd", "db-passwd", "secret", "client_secret",
        "clientSecret", "webhook-secret", "SECRET", "authorization", "Authorization",
        "Proxy-Authorization", "credential", "awsCredential", "api_key", "apiKey", "APIKey",
        "API_KEY", "X-API-Key", "x-api-key", "openai_api_key", "access_key", "AWSAccessKey",
        "aws_secret_access_key", "secretKey", "private-key", "PRIVATE_KEY", "authKey",
        "signing_key", "SigningKey", "credentials", "tokens", "secrets", "passwords", "apikey",
        "APIKEY", "pwd", "DB_PWD", "passphrase", "bearer", "PGPASSWORD", "pgpassword",
    ],
)  # fmt: skip
async def test_a_string_under_a_credentials_name_is_covered(name: str) -> None:
    assert is_credential(name)
    for presets in ({name: KEY}, {"options": {"deep": [{name: KEY}]}}, {name: ["x", (KEY,)]}):
        assert await said(presets) == f"it is {MASK}"


@pytest.mark.parametrize(
    "name",
    [
        "city", "key", "primary_key", "keyApi", "key_access", "apiary", "tokenizer",
        "secretary", "passwordless", "monkey", "user", "region", "url", "author",
        "auth", "public_key", "cache-key", "api", "", "Token"[1:],
    ],
)  # fmt: skip
async def test_a_plain_preset_is_configuration_and_left_alone(name: str) -> None:
    assert not is_credential(name)
    assert await said({name or "x": KEY}) == f"it is {KEY}"
    assert await said({"options": {name: [KEY]}}) == f"it is {KEY}"


async def test_an_answer_with_a_plain_preset_in_it_is_not_turned_into_stars() -> None:
    box = Toolbox()

    @box.tool(presets={"city": "Shanghai", "tool_name": "weather"})
    async def weather(city: str, tool_name: str, days: int) -> str:
        return f"{tool_name} in {city}: sunny"

    outcome = await box.call("weather", {"days": 1, "city": "Beijing"})

    assert outcome.text == outcome.value == "weather in Shanghai: sunny"
    assert list(box.schemas("mcp")[0]["inputSchema"]["properties"]) == ["days"]


@pytest.mark.parametrize(
    "presets",
    [
        {"thing": Secret(KEY)},
        {"thing": SecretStr(KEY)},
        {"thing": SecretBytes(KEY.encode())},
        {"thing": pydantic.Secret[dict[str, str]]({"a": KEY})},
        {"thing": [{"a": Secret(KEY)}]},
        {"headers": {"Authorization": f"Bearer {KEY}"}},
        {"headers": {"authorization": f"Custom-Scheme  {KEY}"}},
        {"headers": {"Authorization": Secret(f"Bearer {KEY}")}},
        {"headers": {"Authorization": "Basic " + base64.b64encode(f"u:{KEY}".encode()).decode()}},
        {"headers": [("x", 1), {"X-Api-Key": KEY}]},
        {"token": KEY.encode()},
        {"thing": Slotted()},
        {"thing": Model()},
        {"thing": Model.model_validate({"password": "x", "api_key": KEY})},
        {"thing": [Settings()]},
        {"thing": Pair("ann", KEY)},
        {"secret": {"value": KEY}},
        {"url": f"postgresql://app:{KEY}@db/x"},
        {"url": f"redis://:{KEY}@db"},
        {"url": f"https://ann:{KEY}@example.com/a?b=c"},
        {"url": f"postgresql+asyncpg://a:x@one,b:{KEY}@two/db"},
        {"url": "mysql://a:" + KEY.replace("-", "%2D") + "@db"},
        {"url": f"https://example.com/?a=b&api_key={KEY}"},
        {"url": f"postgresql:///db?user=ann&password={KEY}"},
        {"url": AnyUrl(f"https://ann:{KEY}@example.com")},
        {"url": PostgresDsn(f"postgresql://app:{KEY}@db/x")},
        {"command": ["npx", "server", f"postgresql://app:{KEY}@db/x"]},
    ],
)
async def test_a_secret_is_covered_wherever_it_stands_among_presets(
    presets: dict[str, Any],
) -> None:
    assert await said(presets) == f"it is {MASK}"


@pytest.mark.parametrize(
    ("presets", "told", "text"),
    [
        ({"token": "1234567"}, "1234567", "1234567"),
        ({"token": "12345678"}, "12345678", MASK),
        ({"thing": Secret("abc")}, "abc", MASK),
        ({"token": 12345678}, "12345678", "12345678"),
        ({"url": "https://example.com:8443/react@18"}, "8443/react@18", "8443/react@18"),
        ({"url": "amqp://guest:guest@mq"}, "for a guest: amqp://guest:guest@mq",
         f"for a guest: amqp://{MASK}mq"),
        ({"url": "mysql://a:p/ss@w:rd-1@db"}, "p/ss@w:rd-1", MASK),
        ({"url": "mysql://a:p%40ssword@db"}, "p@ssword and p%40ssword", f"{MASK} and {MASK}"),
        ({"token": b"\xff\x00secret-"}, r"b'\xff\x00secret-'", f"b'{MASK}'"),
    ],
)  # fmt: skip
async def test_what_is_short_is_left_alone_unless_it_is_marked(
    presets: dict[str, Any], told: str, text: str
) -> None:
    async def tell(**_: Any) -> str:
        return told

    assert await said(presets, tell) == text


async def test_what_a_partial_binds_is_covered_by_the_name_of_its_parameter() -> None:
    def tell(api_key: str, city: str, token: str) -> str:
        return f"{api_key} {city} {token}"

    box = Toolbox()
    inner = functools.partial(tell, "first-secret")
    box.add(functools.partial(inner, city="Shanghai", token="other-secret"))

    assert (await box.call("tell")).text == f"{MASK} Shanghai {MASK}"


async def test_a_hidden_argument_of_a_derived_tool_is_covered_by_its_own_name() -> None:
    def tell(api_key: str, city: str) -> str:
        return f"{api_key} {city}"

    hidden = {
        "api_key": Argument(hidden=True, default="first-secret"),
        "city": Argument(hidden=True, default="Shanghai"),
    }
    box = Toolbox()
    box.add(Tool(tell).derive(arguments=hidden))

    assert (await box.call("tell")).text == f"{MASK} Shanghai"


@pytest.mark.parametrize(
    "deps",
    [
        {"db": {"password": Secret(KEY)}},
        [Settings, {"a": [SecretStr(KEY)]}],
        Model.model_construct(password=Secret(KEY)),
    ],
)
async def test_a_secret_anywhere_in_deps_is_covered(deps: Any) -> None:
    box = Toolbox()

    @box.tool
    async def use(ctx: Context) -> str:
        return f"with {KEY}"

    assert (await box.call("use", deps=deps)).text == f"with {MASK}"


@pytest.mark.parametrize("kind", [{"format": "password"}, {"writeOnly": True}])
async def test_a_secret_argument_of_a_given_schema_is_covered(kind: dict[str, Any]) -> None:
    login = {"properties": {"pass": {"type": "string", **kind}}}
    properties = {"login": {"$ref": "#/definitions/login"}}
    schema = {"properties": properties, "definitions": {"login": login}}
    box = Toolbox()
    box.add(show, name="show", input_schema=schema)
    box.add(show, name="plain", input_schema=schema, validation="describe")

    for name in ("show", "plain"):
        outcome = await box.call(name, {"login": {"pass": KEY}, "thing": 1})
        assert outcome.text == f"it is {MASK}"


@pytest.mark.parametrize("thing", [MagicMock(), Mock(spec=dict), Mock(spec=Secret)])
async def test_a_thing_that_answers_to_every_name_is_no_secret_and_is_passed_as_it_is(
    thing: Any,
) -> None:
    box = Toolbox()

    @box.tool(presets={"thing": thing})
    async def use(thing: Any, ctx: Context) -> list[Any]:
        return [thing, ctx.deps]

    assert (await box.call("use", deps=thing)).value == [thing, thing]
    assert held_secrets(thing) == preset_secrets({"thing": thing}) == []


def test_only_so_much_of_what_a_call_comes_with_is_looked_at_the_nearest_first() -> None:
    many = [{"n": [n]} for n in range(100_000)]
    deps = {"many": many, "login": {"password": Secret(KEY)}, "self": many}
    deps["again"] = deps

    assert held_secrets(deps) == [KEY]


def test_presets_that_hold_themselves_are_looked_through_once() -> None:
    loop: list[Any] = [{"token": KEY}]
    loop += [loop, loop, {"again": loop}]

    assert preset_secrets({"a": loop}) == [KEY]


@given(st.recursive(st.text() | st.binary() | st.none() | st.integers(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_any_preset_can_be_looked_through(preset: Any) -> None:
    assert all(isinstance(text, str) and text for text in preset_secrets({"token": preset}))
