"""A keyword argument that is nearly right is refused by every public callable."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from wieldy import Call, Tool, Toolbox, tool
from wieldy.core.options import TOOL_OPTIONS
from wieldy.mcp.serving.http_endpoint import WebOptions
from wieldy.mcp.serving.server import ServerOptions
from wieldy.openapi.operation_tools import OpenAPIOptions
from wieldy.server import app

PACKAGES = (
    "wieldy",
    "wieldy.mcp",
    "wieldy.server",
    "wieldy.dialects.agently",
    "wieldy.dialects.agentscope",
    "wieldy.dialects.artifactflow",
    "wieldy.dialects.sage",
)

# What each function takes that gathers its options in one `**options`.
GATHERED: dict[str, Iterable[str]] = {
    "BoxServer": ServerOptions.__annotations__,
    "Call.replace": inspect.signature(Call).parameters,
    "Tool.replace": inspect.signature(Tool).parameters,
    "Toolbox.add": TOOL_OPTIONS,
    "Toolbox.add_object": TOOL_OPTIONS,
    "Toolbox.add_openapi": OpenAPIOptions.__annotations__,
    "Toolbox.tool": TOOL_OPTIONS,
    "app": WebOptions.__annotations__,
    "run": WebOptions.__annotations__,
    "serve": WebOptions.__annotations__,
    "server": ServerOptions.__annotations__,
    "tool": TOOL_OPTIONS,
}
# Here somebody else says which keywords there are: a tool its arguments, a derived
# class its settings, a call its facts, and a toolkit the names of its groups.
OPEN = {
    "BaseTool.__call__",
    "BaseTool.execute",
    "Context.report",
    "MCPToolFunction.__call__",
    "CallSubagentTool.__call__",
    "CreateArtifactTool.__call__",
    "CreateArtifactTool.execute",
    "ReadArtifactTool.__call__",
    "ReadArtifactTool.execute",
    "RewriteArtifactTool.__call__",
    "RewriteArtifactTool.execute",
    "Toolkit.reset_equipped_tools",
    "UpdateArtifactTool.__call__",
    "UpdateArtifactTool.execute",
    "WebFetchTool.__call__",
    "WebFetchTool.execute",
    "WebSearchTool.__call__",
    "WebSearchTool.execute",
}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """What users may call: the functions, classes and methods of each public list."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found):
                yield name, found
            elif inspect.isclass(found):
                if not inspect.isabstract(found):
                    yield name, found
                yield from public_methods(found)


def public_methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(owner):
        method = inspect.getattr_static(owner, name)
        method = getattr(method, "__func__", method)
        ours = str(getattr(method, "__module__", "")).startswith("wieldy")
        if ours and inspect.isfunction(method) and (name[0] != "_" or name == "__call__"):
            yield f"{owner.__name__}.{name}", method


def own_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        # Classes of the interpreter don't tell, and take no keywords.
        return []


def own_keywords(function: Callable[..., Any]) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in own_parameters(function) if each.kind in named]


async def call_with(function: Callable[..., Any], keyword: str) -> None:
    """Call a function with one keyword, and with nothing of use in all other places."""
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [
        object()
        for each in own_parameters(function)
        if each.kind in needed and each.default is each.empty
    ]
    answer = function(*places, **{keyword: None})
    if inspect.isawaitable(answer):
        await answer


CALLABLES = {name: each for name, each in public_callables() if name not in OPEN} | {
    # These look at the object they belong to before they can know what it has.
    "Call.replace": Call("add").replace,
    "Tool.replace": Tool(own_keywords).replace,
}


@pytest.mark.parametrize("name", CALLABLES)
async def test_keyword_that_is_nearly_right_is_refused(name: str) -> None:
    function = CALLABLES[name]

    for keyword in own_keywords(function):
        with pytest.raises(TypeError, match="keyword"):
            await call_with(function, f"{keyword}_x")


@pytest.mark.parametrize(
    ("name", "keyword"),
    [(name, keyword) for name, known in GATHERED.items() for keyword in sorted(known)],
)
async def test_refusal_names_the_option_that_was_meant(name: str, keyword: str) -> None:
    wrong = keyword + keyword[-1]

    with pytest.raises(TypeError, match=rf"{wrong!r}. Did you mean {keyword!r}\?"):
        await call_with(CALLABLES[name], wrong)


def test_every_function_that_gathers_options_is_known_here() -> None:
    gathers = {
        name
        for name, function in public_callables()
        if any(each.kind is each.VAR_KEYWORD for each in own_parameters(function))
    }

    assert gathers == GATHERED.keys() | OPEN


def test_an_app_is_not_served_without_the_token_that_was_meant_for_it() -> None:
    with pytest.raises(TypeError, match=re.escape("app() has no keyword argument 'token'. Did")):
        app(Toolbox(), token="x")  # type: ignore[call-arg]


def test_mark_with_a_wrong_option_fails_where_it_is_written() -> None:
    with pytest.raises(TypeError, match=r"'tiemout'\. Did you mean 'timeout'"):
        tool(tiemout=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"'tiemout'\. Did you mean 'timeout'"):
        Toolbox().tool(tiemout=5)  # type: ignore[call-overload]
