"""Views: what one agent sees is all that it can call."""

from typing import Any

import pytest

from wieldy import Call, Context, Outcome, Scope, Status, Tool, Toolbox


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()
    box.groups.create("files", active=True)
    box.groups.create("web", active=False)
    for name, tags, group in [
        ("read", {"safe", "io"}, "files"),
        ("write", {"io"}, "files"),
        ("fetch", {"safe", "net"}, "web"),
        ("now", {"safe"}, "basic"),
    ]:
        box.add(lambda: "ran", name=name, tags=tags, group=group)
    return box


def test_a_view_unites_within_a_criterion_and_narrows_between_criteria(box: Toolbox) -> None:
    assert box.view(tags=["safe", "net"]).names == ["read", "now"]
    assert box.view(tags="safe", groups=["files", "web"]).names == ["read"]
    assert box.view(names=["now", "write"], tags="io").names == ["write"]
    assert box.view(tags="nothing").names == []
    assert box.view(names=[]).names == []


async def test_what_a_view_does_not_show_cannot_be_called_through_it(box: Toolbox) -> None:
    view = box.view(tags="safe")
    assert (await view.call("read")).status is Status.OK
    for outcome in [
        await view.call("write"),
        view.call_sync("write"),
        *await view.call_many([("write", None)]),
        [item async for item in view.stream("write")][-1],
    ]:
        assert isinstance(outcome, Outcome)
        assert outcome.status is Status.ERROR
        assert "There is no tool named 'write'" in outcome.text


async def test_a_hidden_tool_is_not_even_hinted_at(box: Toolbox) -> None:
    outcome = await box.view(tags="safe").call("writ")
    assert "write" not in outcome.text


def test_a_view_may_be_made_of_the_names_that_providers_see(box: Toolbox) -> None:
    box.add(lambda: "ran", name="look it up!")
    shown = box.schemas("mcp")[-1]["name"]
    assert box.view(names=[shown]).names == ["look it up!"]


async def test_a_call_cannot_speak_for_another_agent_than_its_view(box: Toolbox) -> None:
    def who(context: Context) -> str | None:
        return context.scope.agent

    box.add(who)
    call = Call("who", scope=Scope(agent="admin"))
    assert (await box.view(agent="guest").call(call)).value == "guest"
    assert (await box.call(call)).value == "admin"


def test_a_view_is_live(box: Toolbox) -> None:
    view = box.view(tags="safe")
    assert view.names == ["read", "now"]
    box.groups.activate("web")
    box.add(lambda: 1, name="later", tags={"safe"})
    assert view.names == ["read", "fetch", "now", "later"]
    box.remove("read")
    assert view.names == ["fetch", "now", "later"]


async def test_a_view_of_a_view_only_narrows(box: Toolbox) -> None:
    view = box.view(tags="safe").view(names=["read", "write"])
    assert view.names == ["read"]
    assert (await view.call("write")).status is Status.ERROR
    assert view.view(names=["write"]).names == []


def test_a_view_reads_like_the_box(box: Toolbox) -> None:
    view = box.view(groups="files")
    assert len(view) == 2
    assert "read" in view and "now" not in view
    assert view.get("now") is None
    assert [d["name"] for d in view.schemas("anthropic")] == ["read", "write"]
    assert [tool.name for tool in view.search("write")] == ["write"]


async def test_the_agent_of_a_view_is_in_the_scope_of_its_calls(box: Toolbox) -> None:
    def who(context: Context) -> list[str | None]:
        return [context.scope.agent, context.scope.session]

    box.add(who)
    view = box.view(agent="scout")
    assert (await view.call("who", session="s1")).value == ["scout", "s1"]
    assert (await view.view(names="who").call("who")).value == ["scout", None]
    assert view.call_sync("who").value == ["scout", None]


async def test_a_predicate_says_for_whom_a_tool_is_there(box: Toolbox) -> None:
    view = box.view(where=lambda tool, scope: tool.name == "now" or scope.caller == "ann")
    ann = view.view(caller="ann")

    assert (view.names, ann.names) == (["now"], ["read", "write", "now"])
    assert ("read" in view, "read" in ann) == (False, True)
    assert [tool.name for tool in view.all_tools()] == ["now"]
    assert (await ann.call("read")).status is Status.OK
    outcome = await view.call("read")
    assert "There is no tool named 'read'" in outcome.text
    asked = Call("read", {}, Scope(caller="ann"))
    assert (await view.call(asked)).status is Status.OK
    offered = await view.callable_tools(Scope(caller="ann"))
    assert [tool.name for tool in offered] == ["read", "write", "now"]


def test_a_predicate_narrows_what_else_is_chosen(box: Toolbox) -> None:
    safe = box.view(tags="safe", where=lambda tool, scope: tool.name != "now")

    assert safe.names == ["read"]
    assert safe.view(where=lambda tool, scope: True).names == ["read"]
    assert box.view(where=lambda tool, scope: 0).names == []  # type: ignore[arg-type, return-value]


async def _never(tool: Tool, scope: Scope) -> bool:
    return False


def _fails(tool: Tool, scope: Scope) -> bool:
    if tool.name == "now":
        return True
    raise LookupError(tool.name)


@pytest.mark.parametrize(
    ("where", "names", "error"),
    [(_fails, ["now"], "LookupError: read"), (_never, [], "TypeError: where must answer at once")],
)
async def test_a_tool_on_which_the_predicate_fails_is_hidden_and_the_error_is_told_once(
    box: Toolbox, where: Any, names: list[str], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    view = box.view(where=where)
    for seen in (view, view.view(tags=["io", "safe"])):
        assert seen.names == names
        assert (await seen.call("write")).status is Status.ERROR
        assert seen.search("read") == []

    [record] = caplog.records
    assert "which is hidden" in record.getMessage()
    assert error in caplog.text


def test_a_predicate_that_can_not_be_asked_is_refused(box: Toolbox) -> None:
    with pytest.raises(TypeError, match=r"where is a function of \(tool, scope\), not 'safe'"):
        box.view(where="safe")  # type: ignore[arg-type]
