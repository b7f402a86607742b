"""Which arguments a rule means, by whatever name and however deep."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict

from wieldy import Argument, Toolbox
from wieldy.core.choices import PermissionName

EVIL = "/etc/passwd"
SCHEMA = {"type": "object", "properties": {"filter.path": {"type": "string"}, "filter": {}}}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    note: str = ""


class Chosen(BaseModel):
    target: str = Field(
        "", validation_alias=AliasChoices("path", "file", AliasPath("meta", 0, "path"))
    )


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    file_path: str = ""


class Dotted(BaseModel):
    path: str = Field("", alias="file.path")


class Typed(TypedDict, total=False):
    path: Annotated[str, Field(alias="filePath")]
    inner: list[Chosen]


@dataclass
class Plain:
    path: Annotated[str, Field(alias="filePath")] = ""


@checked_dataclass
class Checked:
    path: str = Field("", validation_alias=AliasChoices("filePath", "file"))


class Listed(RootModel[list[Chosen]]):
    pass


class Pair(NamedTuple):
    path: str
    note: str


class Key(Enum):
    PATH = "path"


def cases() -> list[Any]:  # noqa: C901 - one small function for each type
    async def opened(it: Open) -> None: ...
    async def chosen(it: Chosen) -> None: ...
    async def many(it: list[list[Chosen]]) -> None: ...
    async def camel(it: Camel) -> None: ...
    async def dotted(it: Dotted) -> None: ...
    async def typed(it: Typed) -> None: ...
    async def several(it: dict[str, list[Typed]]) -> None: ...
    async def plain(it: list[Plain]) -> None: ...
    async def checked(it: Checked) -> None: ...
    async def listed(it: Listed) -> None: ...
    async def pair(it: Pair) -> None: ...
    async def keyed(it: dict[Key, str]) -> None: ...
    async def numbered(it: dict[int, str]) -> None: ...
    async def once(it: Iterable[Chosen]) -> None: ...
    async def either(it: Chosen | Camel | None) -> None: ...

    return [
        (opened, "it.path", {"path": EVIL}),
        (opened, "it.copy", {"copy": EVIL}),
        (opened, "it.model_fields", {"model_fields": EVIL}),
        (opened, "it", {"path": EVIL}),
        (opened, "it", {"deep": [{"path": EVIL}]}),
        (opened, "it.deep.path", {"deep": [{"path": EVIL}]}),
        (opened, "it.deep.path", {"deep.path": EVIL}),
        (chosen, "it.target", {"path": EVIL}),
        (chosen, "it.path", {"file": EVIL}),
        (chosen, "it.file", {"path": EVIL}),
        (chosen, "it.meta.path", {"path": EVIL}),
        (chosen, "it.file", {"meta": [{"path": EVIL}]}),
        (chosen, "it.meta.path", {"meta": [{"path": EVIL}]}),
        (chosen, "it.meta.0.path", {"meta": [{"path": EVIL}]}),
        (chosen, "it.meta", {"meta": [{"path": EVIL}]}),
        (many, "it.file", [[{"path": "/tmp/a"}], [{"path": EVIL}]]),
        (camel, "it.filePath", {"file_path": EVIL}),
        (camel, "it.file_path", {"filePath": EVIL}),
        (dotted, "it.file.path", {"file.path": EVIL}),
        (dotted, "it.path", {"file.path": EVIL}),
        (typed, "it.filePath", {"filePath": EVIL}),
        (typed, "it.path", {"filePath": EVIL}),
        (typed, "it.inner.file", {"inner": [{"path": EVIL}]}),
        (several, "it.a.filePath", {"a": [{"filePath": EVIL}]}),
        (plain, "it.filePath", [{"filePath": EVIL}]),
        (plain, "it.path", [{"filePath": EVIL}]),
        (checked, "it.file", {"filePath": EVIL}),
        (checked, "it.filePath", {"file": EVIL}),
        (listed, "it.file", [{"path": EVIL}]),
        (pair, "it.path", [EVIL, ""]),
        (keyed, "it.path", {"path": EVIL}),
        (numbered, "it.7", {"7": EVIL}),
        (once, "it.path", [{"path": EVIL}]),
        (either, "it.file", {"path": EVIL}),
    ]


@pytest.mark.parametrize(("function", "name", "sent"), cases())
async def test_a_denial_holds_by_every_name_that_a_field_has(
    function: Any, name: str, sent: Any
) -> None:
    box = Toolbox()
    box.add(function, name="act")
    box.rules.deny("act", where={name: "/etc/**"})
    outcome = await box.call("act", {"it": sent})
    assert outcome.status.value == "denied", outcome


async def test_a_field_of_another_class_is_not_meant() -> None:
    class Other(BaseModel):
        target: str
        path: str

    async def act(a: Chosen, b: Other) -> None: ...

    box = Toolbox()
    box.add(act)
    box.rules.deny("act", where={"b.path": "/etc/**"})
    sent = {"a": {"path": EVIL}, "b": {"target": EVIL, "path": "/tmp/a"}}
    assert (await box.call("act", sent)).status.value == "ok"


@pytest.mark.parametrize(
    ("sent", "denied", "allowed"),
    [
        ({"filter.path": EVIL}, True, False),
        ({"filter": {"path": EVIL}}, True, False),
        ({"filter.path": "/tmp/a"}, False, True),
        ({"filter": {"path": "/tmp/a"}}, False, True),
        ({"filter.path": "/tmp/a", "filter": {"path": EVIL}}, True, False),
        ({"filter.path": EVIL, "filter": {"path": "/tmp/a"}}, True, False),
        ({"filter.path": "/tmp/a", "filter": {"path": "/tmp/b"}}, False, True),
        ({"filter": [{"path": "/tmp/a"}, {"path": EVIL}]}, True, False),
        ({"filter.path": "/tmp/a", "filter": 7}, False, True),
        ({}, False, False),
    ],
)
async def test_a_dotted_name_restricts_by_either_meaning_and_allows_by_both(
    sent: dict[str, Any], denied: bool, allowed: bool
) -> None:
    async def act(**sent: Any) -> None: ...

    for verdict, expected in (("deny", denied), ("allow", allowed)):
        box = Toolbox()
        permission: PermissionName = "auto" if verdict == "deny" else "confirm"
        box.add(act, input_schema=SCHEMA, permission=permission)
        pattern = "/etc/**" if verdict == "deny" else "/tmp/**"
        getattr(box.rules, verdict)("act", where={"filter.path": pattern})
        status = (await box.call("act", sent)).status.value
        assert (
            status
            == {
                ("deny", True): "denied",
                ("deny", False): "ok",
                ("allow", True): "ok",
                ("allow", False): "pending",
            }[verdict, expected]
        )


async def test_a_parameter_whose_shown_name_has_a_dot_is_meant() -> None:
    async def act(path: Annotated[str, Field(alias="filter.path")] = "") -> None: ...

    box = Toolbox()
    box.add(act)
    box.rules.deny("act", where={"filter.path": "/etc/**"})
    assert (await box.call("act", {"filter.path": EVIL})).status.value == "denied"

    tool = box.get("act")
    assert tool is not None
    derived = Toolbox()
    derived.add(tool.derive(arguments={"filter.path": Argument(name="where.to")}))
    derived.rules.deny("act", where={"where.to": "/etc/**"})
    assert (await derived.call("act", {"where.to": EVIL})).status.value == "denied"


async def test_an_allow_needs_every_reading_of_extra_fields() -> None:
    async def act(it: Open) -> None: ...

    box = Toolbox()
    box.add(act, permission="confirm")
    box.rules.allow("act", where={"it": ["/tmp/**", "", "path", "more"]})
    assert (await box.call("act", {"it": {"path": "/tmp/a"}})).status.value == "ok"
    sent = {"path": "/tmp/a", "more": EVIL}
    assert (await box.call("act", {"it": sent})).status.value == "pending"
