"""A string that is one of few is a type, and the type knows all that are taken."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

import pytest

from wieldy import Limits, Permission, Tool, Toolbox, View
from wieldy.core import choices
from wieldy.core.limits.limits import ISOLATIONS
from wieldy.core.options import ToolOptions
from wieldy.core.permission.modes import MODES
from wieldy.core.registry import CONFLICTS
from wieldy.core.tool import VALIDATIONS
from wieldy.lock.lock_review import ON_CHANGE
from wieldy.openapi.operation_tools import OpenAPIOptions
from wieldy.store.databases.database import DURABILITIES
from wieldy.store.ledger import Ledger
from wieldy.store.row_values import ENDS, STATES
from wieldy.wire.checking import report
from wieldy.wire.prompt import tool_instructions
from wieldy.wire.schema.target import PROVIDERS
from wieldy.wire.text import TextCallParser
from wieldy.wire.text.call_dialects import DIALECTS
from wieldy.wire.text.call_text import render_call


def test_the_types_know_all_that_are_taken() -> None:
    assert get_args(choices.PermissionName) == tuple(each.value for each in Permission)
    assert get_args(choices.TextDialect) == tuple(DIALECTS)
    assert get_args(choices.PermissionMode) == MODES
    assert get_args(choices.ValidationMode) == VALIDATIONS
    assert get_args(choices.Isolation) == ISOLATIONS
    assert get_args(choices.ConflictPolicy) == CONFLICTS
    assert set(get_args(choices.ServerConflictPolicy)) < set(CONFLICTS)
    assert get_args(choices.ChangePolicy) == ON_CHANGE
    assert get_args(choices.Durability) == DURABILITIES
    assert get_args(choices.ProviderFormat) == PROVIDERS
    assert get_args(choices.CallState) == STATES
    assert set(ENDS) < set(STATES)


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [
        (Toolbox, "durability", choices.Durability),
        (Toolbox, "on_change", choices.ChangePolicy),
        (Toolbox, "permission_mode", choices.PermissionMode | None),
        (Toolbox, "validation", choices.ValidationMode),
        (Toolbox.add_mcp, "permission", Permission | choices.PermissionName | None),
        (Toolbox.add_mcp, "on_conflict", choices.ServerConflictPolicy | None),
        (Tool, "permission", Permission | choices.PermissionName | None),
        (Tool, "validation", choices.ValidationMode | None),
        (Limits, "isolation", choices.Isolation | None),
        (View.schemas, "provider", choices.ProviderFormat),
        (View.cost, "provider", choices.ProviderFormat),
        (report, "provider", choices.ProviderFormat),
        (TextCallParser, "dialect", choices.TextDialect),
        (render_call, "dialect", choices.TextDialect),
        (tool_instructions, "dialect", choices.TextDialect),
    ],
)
def test_public_parameters_have_these_types(
    function: Callable[..., Any], name: str, expected: object
) -> None:
    assert inspect.signature(function).parameters[name].annotation == expected


@pytest.mark.parametrize("method", [Ledger.list, Ledger.walk, Ledger.follow])
def test_the_ledger_is_asked_for_states(method: Callable[..., Any]) -> None:
    status = inspect.signature(method).parameters["state"].annotation
    assert choices.CallState in get_args(status) or set(STATES) <= set(
        get_args(next(each for each in get_args(status) if get_args(each)))
    )


def test_options_have_these_types() -> None:
    for options in (ToolOptions, OpenAPIOptions):
        assert options.__annotations__["on_conflict"] == choices.ConflictPolicy
        assert options.__annotations__["permission"] == Permission | choices.PermissionName | None
    assert ToolOptions.__annotations__["validation"] == choices.ValidationMode | None
    assert ToolOptions.__annotations__["isolation"] == choices.Isolation | None
