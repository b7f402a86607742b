"""Runs of agents on the command line: interrupted, continued, listed."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, make_token, wieldy

AGENT = """
from wieldy import Call
from wieldy.agent import Agent
from wieldy.models.model import Answers
from wieldy.testing import ScriptedModel


def answer(request):
    if any(isinstance(turn, Answers) for turn in request.turns):
        return "It is done."
    return [Call("wipe", {"path": "/tmp/x"}), Call("look", {"path": "/tmp/y"})]


agent = Agent(
    ScriptedModel(answer), name="cleaner", tool_strategy="native", store="sqlite:///wieldy.db"
)
plain = Agent(ScriptedModel(["Hi."]), name="plain")


async def wipe(path: str) -> str:
    return f"wiped {path}"


async def look(path: str) -> str:
    return f"nothing in {path}"


agent.toolbox.add(wipe, tags=[agent.tag], permission="confirm", description="Wipe a path.")
agent.toolbox.add(look, tags=[agent.tag], description="Look at a path.")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with agents in a file."""
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def interrupted(place: Path) -> dict[str, str]:
    done = wieldy("run", "agent.py", "Clean up.", "--json", cwd=place)
    assert done.returncode == 3
    told = json.loads(done.stdout)
    return {"run": told["run_id"], "call": told["pending"][0]["call_id"]}


def test_an_interrupted_run_is_continued_after_wieldy_approve(place: Path) -> None:
    ids = interrupted(place)
    wieldy("approve", ids["call"], "--token", make_token(place), cwd=place)

    done = wieldy("run", "agent.py", "--resume", ids["run"][:12], cwd=place)

    assert (done.returncode, done.stdout) == (0, "It is done.\n")
    assert "wiped /tmp/x" in done.stderr


def test_approvals_can_be_denied_without_asking(place: Path) -> None:
    done = wieldy("run", "agent.py", "Clean up.", "--approve", "deny", cwd=place)

    assert (done.returncode, done.stdout) == (0, "It is done.\n")
    assert "approvals are off" in done.stderr


def test_a_terminal_is_not_asked_where_calls_stay_pending(place: Path) -> None:
    terminal = Terminal("run", "agent.py", "Clean up.", "--approve", "pending", cwd=place)
    try:
        terminal.wait_for("--resume")
        assert terminal.ends_with() == 3
    finally:
        terminal.close()


def test_a_person_decides_when_the_run_is_continued(place: Path) -> None:
    ids = interrupted(place)
    terminal = Terminal("run", "agent.py", "--resume", ids["run"], cwd=place)
    try:
        terminal.wait_for("Run it?")
        terminal.type("y\n")
        terminal.wait_for("It is done.")
        assert terminal.ends_with() == 0
    finally:
        terminal.close()


def test_runs_are_listed_and_shown_as_a_tree(place: Path) -> None:
    ids = interrupted(place)
    listed = wieldy("runs", "--store", "sqlite:///wieldy.db", cwd=place)
    waiting = wieldy(
        "runs", "--state", "interrupted", "--json", "--store", "sqlite:///wieldy.db", cwd=place
    )
    shown = wieldy("runs", ids["run"][:10], "--store", "sqlite:///wieldy.db", cwd=place)
    whole = wieldy("runs", ids["run"], "--json", "--store", "sqlite:///wieldy.db", cwd=place)

    assert "cleaner" in listed.stdout and "interrupted" in listed.stdout
    assert [run["run_id"] for run in json.loads(waiting.stdout)] == [ids["run"]]
    assert "round 1" in shown.stdout
    assert f"wipe ({ids['call']}): pending" in shown.stdout
    assert "look" in shown.stdout and "ok" in shown.stdout
    told = json.loads(whole.stdout)
    assert [call["tool"] for call in told["rounds"]["0"]] == ["wipe", "look"]


NESTED = """
from wieldy import Call
from wieldy.agent import Agent
from wieldy.testing import Answer, ScriptedModel

STORE = "sqlite:///wieldy.db"


async def look(path: str) -> str:
    return f"nothing in {path}"


def make(name, *answers):
    model = ScriptedModel(answers)
    return Agent(model, name=name, tool_strategy="native", store=STORE)


deep = make("deep", Answer("Deep.", usage=(7, 2)))
finder = make("finder", [Call("look", {"path": "/x"}), Call("deep", {"query": "?"})], "Found.")
agent = make("boss", Call("finder", {"query": "Find it."}), "Done.")
finder.use_tools([look, deep])
agent.use_tools(finder)
"""


def test_the_runs_of_subagents_are_shown_inside_the_calls_that_asked_them(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(NESTED)
    assert wieldy("run", "agent.py", "Go.", cwd=tmp_path).stdout == "Done.\n"
    store = ("--store", "sqlite:///wieldy.db")

    [listed] = json.loads(wieldy("runs", "--json", *store, cwd=tmp_path).stdout)
    shown = wieldy("runs", listed["run_id"], *store, cwd=tmp_path).stdout
    whole = json.loads(wieldy("runs", listed["run_id"], "--json", *store, cwd=tmp_path).stdout)

    finder = whole["rounds"]["0"][0]["inner_run"]
    assert (listed["agent"], listed["parent"]) == ("boss", None)
    assert (finder["agent"], finder["parent"]) == ("finder", listed["run_id"])
    look, deep = finder["rounds"]["0"]
    assert (look["tool"], "inner_run" in look) == ("look", False)
    assert (deep["inner_run"]["agent"], deep["inner_run"]["answer"]["text"]) == ("deep", "Deep.")
    assert f"run {finder['run_id']} of finder: done" in shown
    lines = shown.splitlines()
    of_deep = next(line for line in lines if " of deep: done, tokens" in line)
    of_look = next(line for line in lines if "look (" in line)
    assert shown.index("of finder") < shown.index(of_look) < shown.index(of_deep)
    assert of_deep.index("run ") >= of_look.index("look") > shown.index("run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "agent.py"), "QUESTION"),
        (("run", "agent.py", "Hi.", "--resume", "x"), "QUESTION"),
        (("run", "agent.py", "--resume", "nothing"), "No run begins with"),
        (("run", "agent.py:plain", "--resume", "x"), "no store"),
        (("runs", "nothing", "--store", "sqlite:///wieldy.db"), "No run begins with"),
        (("runs", "--state", "lost", "--store", "sqlite:///wieldy.db"), "interrupted"),
    ],
)
def test_what_can_not_be_done_is_said(place: Path, arguments: tuple[str, ...], words: str) -> None:
    interrupted(place)
    done = wieldy(*arguments, cwd=place)

    assert done.returncode == 2
    assert words in done.stderr
