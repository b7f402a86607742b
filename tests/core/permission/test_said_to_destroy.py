"""A tool from elsewhere that is said to be destructive asks, unless somebody has decided on it."""

import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from tests.mcp.conftest import SHOP
from wieldy import DefinitionError, Permission, Tool, Toolbox
from wieldy.core.choices import PermissionMode

BECAUSE = "its source says that it is destructive, and nobody has set its permission"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://pets.invalid"}],
    "paths": {
        "/pets/{id}": {
            method: {
                "operationId": f"{method}_pet",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": {"200": {"description": "done"}},
            }
            for method in ("get", "put", "delete")
        }
    },
}


async def add_shop(box: Toolbox, **options: Any) -> str:
    await box.add_mcp(SHOP, allow=["wipe", "add"], **options)
    return "wipe"


async def add_pets(box: Toolbox, **options: Any) -> str:
    await box.add_openapi(DOCUMENT, **options)
    return "delete_pet"


SOURCES = pytest.mark.parametrize("add", [add_shop, add_pets])


async def decide(box: Toolbox, name: str, arguments: dict[str, Any] | None = None) -> str:
    given = {"id": "1"} if name.endswith("_pet") else {}
    explained = await box.explain_permission(name, {**given, **(arguments or {})})
    return explained.decision


@SOURCES
@pytest.mark.parametrize(
    ("mode", "decision"),
    [
        ("bypass", "run"),
        ("accept-edits", "ask"),
        ("ask", "ask"),
        ("dont-ask", "deny"),
        ("dry-run", "dry-run"),
        ("read-only", "deny"),
    ],
)
async def test_what_becomes_of_it_in_each_mode(
    add: Callable[..., Any], mode: PermissionMode, decision: str
) -> None:
    async with Toolbox(permission_mode=mode) as box:
        assert await decide(box, await add(box)) == decision


@SOURCES
async def test_the_person_and_the_program_are_told_why(add: Callable[..., Any]) -> None:
    async with Toolbox() as box:
        name = await add(box)
        given = {"id": "1"} if name == "delete_pet" else {}

        explained = await box.explain_permission(name, given)
        receipt = await box.call(name, given)

        tool = box.get(name)
        assert tool is not None
        assert (tool.permission, tool.asks_because) == (Permission.CONFIRM, BECAUSE)
        assert (explained.decision, explained.because) == ("ask", BECAUSE)
        assert receipt.status == "pending"
        assert [parked.reason for parked in await box.pending()] == [BECAUSE]


@SOURCES
@pytest.mark.parametrize("options", [{"permission": "auto"}, {"trusted": True}])
async def test_a_permission_or_trust_of_its_source_runs_it(
    add: Callable[..., Any], options: dict[str, Any]
) -> None:
    async with Toolbox() as box:
        assert await decide(box, await add(box, **options)) == "run"


@SOURCES
async def test_an_allow_rule_runs_it(add: Callable[..., Any]) -> None:
    async with Toolbox() as box:
        name = await add(box)
        box.rules.allow(name)
        assert await decide(box, name) == "run"


@SOURCES
async def test_a_permission_that_was_set_for_its_source_stays(add: Callable[..., Any]) -> None:
    async with Toolbox() as box:
        name = await add(box, permission="deny")
        tool = box.get(name)
        assert tool is not None
        assert (tool.permission, tool.asks_because) == (Permission.DENY, None)


async def test_what_is_not_said_to_be_destructive_runs_as_before() -> None:
    async with Toolbox() as box:
        await add_shop(box)
        await add_pets(box)
        assert await decide(box, "add", {"a": 1}) == "run"
        assert [await decide(box, f"{each}_pet") for each in ("get", "put")] == ["run", "run"]


async def test_a_function_of_the_program_has_the_permission_that_its_author_sets() -> None:
    box = Toolbox()

    @box.tool(destructive=True)
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    assert (await box.call("wipe")).value == "wiped"


async def test_a_tool_that_is_derived_or_tagged_asks_like_its_original() -> None:
    async with Toolbox() as box:
        await add_shop(box)
        wipe = box.get("wipe")
        assert wipe is not None
        assert wipe.derive(name="clean").asks_because == BECAUSE
        assert wipe.replace(tags=["danger"]).permission is Permission.CONFIRM
        assert wipe.replace(permission="auto").permission is Permission.AUTO
        assert wipe.replace(permission="auto").fingerprint == wipe.fingerprint


def test_a_permission_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DefinitionError, match="auto, confirm, deny"):
        Tool(print, permission="maybe")  # type: ignore[arg-type]


async def test_rules_about_trust_mean_openapi_documents_too() -> None:
    async with Toolbox() as box:
        box.rules.deny(trusted=False)
        await box.add_openapi(DOCUMENT, prefix="mine", trusted=True)
        await box.add_openapi(DOCUMENT, prefix="theirs")
        assert await decide(box, "mine_get_pet") == "run"
        assert await decide(box, "theirs_get_pet") == "deny"


@pytest.mark.parametrize(("trusted", "peek"), [(False, "ask"), (True, "run")])
async def test_the_gateway_of_wieldy_init_asks_about_what_is_not_known_to_be_read_only(
    trusted: bool, peek: str
) -> None:
    template = files("wieldy.cli") / "templates" / "gateway.toml"
    async with Toolbox() as box:
        await box.add_mcp(SHOP, trusted=trusted)
        box.add(len, "own")
        for rule in tomllib.loads(template.read_text(encoding="utf-8"))["rules"]:
            getattr(box.rules, rule.pop("verdict"))(rule.pop("tools", None), **rule)

        assert await decide(box, "peek") == peek
        assert [await decide(box, "add", {"a": 1}), await decide(box, "wipe")] == ["ask", "ask"]
        assert await decide(box, "own", {"obj": "a"}) == "run"
