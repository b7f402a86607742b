"""A program whose process is killed goes on in another one, with no effect twice."""

from collections import Counter
from pathlib import Path

import pytest

from tests.forking.forked_program import run_program
from tests.tools.code_mode.killed_agent import make_agent
from tests.tools.code_mode.killed_program import make_box
from wieldy import Status
from wieldy.testing import ScriptedModel

PROGRAM = Path(__file__).with_name("killed_program.py")
AGENT = Path(__file__).with_name("killed_agent.py")
ACTS = {f"act {n}": 1 for n in (0, 1, 2, 10, 11)}


def kill_at(point: str, url: str, folder: Path, program: Path = PROGRAM) -> None:
    """Run the program in a process that dies at a point."""
    ended = run_program([str(program), url, str(folder), point])
    assert ended.returncode == -9, ended.stderr


def effects(folder: Path) -> Counter[str]:
    """How often each call had its effect."""
    path = folder / "effects"
    return Counter(path.read_text().splitlines() if path.exists() else ())


@pytest.mark.parametrize("point", ["ended act 0", "after look 1", "ended look 2"])
async def test_a_program_killed_between_its_calls_goes_on_by_itself(
    point: str, url: str, tmp_path: Path
) -> None:
    kill_at(point, url, tmp_path)
    async with make_box(url, tmp_path) as box:
        await box.recover()
        (entry,) = await box.ledger.list(tool="run_code")
    assert (entry.status, entry.value) == (Status.OK, 24)
    done = effects(tmp_path)
    assert {each: count for each, count in done.items() if each.startswith("act")} == ACTS


@pytest.mark.parametrize(("point", "happened"), [("before act 1", False), ("after act 1", True)])
async def test_a_program_killed_in_a_call_waits_until_a_person_says_what_became_of_it(
    point: str, happened: bool, url: str, tmp_path: Path
) -> None:
    kill_at(point, url, tmp_path)
    async with make_box(url, tmp_path) as box:
        (outcome,) = await box.recover()
        assert outcome.status is Status.UNKNOWN
        child = f"{outcome.call.id}.2"
        assert child in outcome.text
        assert effects(tmp_path)["act 1"] == happened

        if happened:
            await box.ledger.settle(child, "ok", by="ann", value=1)
        else:
            await box.recover([child], by="ann")
        (outcome,) = await box.recover()

        assert (outcome.status, outcome.value) == (Status.OK, 24)
    done = effects(tmp_path)
    assert {each: count for each, count in done.items() if each.startswith("act")} == ACTS


@pytest.mark.parametrize(
    ("point", "told", "acts"),
    [
        ("after look 1", "3", {"act 0": 1, "act 1": 1, "act 2": 1}),
        ("after act 1", "It is not known how the call of act ended", {"act 0": 1, "act 1": 1}),
    ],
)
async def test_an_agent_killed_inside_of_a_program_resumes_with_no_effect_twice(
    point: str, told: str, acts: dict[str, int], url: str, tmp_path: Path
) -> None:
    kill_at(point, url, tmp_path, AGENT)
    agent = make_agent(url, tmp_path, ["Done."])
    (run,) = await agent.toolbox.store.runs.list()
    assert await agent.async_resume(run.id) == "Done."
    entries = await agent.toolbox.ledger.list(tool="run_code")
    await agent.async_close()
    assert len(entries) == 1
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].messages[-1]["content"].startswith(told)
    done = effects(tmp_path)
    assert {each: count for each, count in done.items() if each.startswith("act")} == acts
