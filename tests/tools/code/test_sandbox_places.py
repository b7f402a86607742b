"""The sandbox, wherever the interpreter, its packages and the project lie."""

import json

import pytest

from tests.tools.code.places import CANARY, run_in_place

# Run by Python in the sandbox.
LOOK = f"""
import json, os, subprocess, sys
import pydantic

def output(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout

json.dump({{
    "root": sorted(set(os.listdir("/")) & {{"home", "root", "opt", "var", "srv", "mnt"}}),
    "tmp": os.listdir("/tmp"),
    "seen": output("find", "/", "-path", "/proc", "-prune", "-o", "-path", "/usr", "-prune",
                   "-o", "-name", "{CANARY}", "-print"),
    "prefix": sys.prefix,
    "package": pydantic.__file__.startswith(sys.prefix),
    "child": output(sys.executable, "-c", "print(6 * 7)"),
    "shell": output("sh", "-c", "python -c 'print(6 * 7)'"),
    "script": output("greet", "me"),
}}, sys.stdout)
"""
PROGRAM = f"""
import asyncio, tempfile
from wieldy.tools.code import Sandbox

async def main():
    sandbox = Sandbox()
    with tempfile.TemporaryDirectory() as folder:
        end = await sandbox.run([sandbox.interpreter, "look.py"], folder,
                                scripts={{"look.py": {LOOK.encode()!r}}})
        print(end.stdout, end.stderr)

asyncio.run(main())
"""
PLACES = [
    ("/tmp", "one/wieldy"),
    ("/home", "ann/wieldy"),
    ("/root", "wieldy"),
    ("/var/tmp", "wieldy"),
    ("/opt", "wieldy"),
    ("/srv", "a place/with spaces"),
    ("/opt", "link/wieldy"),
    ("/tmp", "link/a place"),
]


@pytest.mark.parametrize("ordinary", [False, True], ids=["root", "ordinary"])
@pytest.mark.parametrize(("top", "place"), PLACES)
def test_code_runs_and_sees_nothing_on_the_way_to_its_interpreter(
    top: str, place: str, ordinary: bool
) -> None:
    done = run_in_place(top, place, PROGRAM, ordinary)

    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "root": [],
        "tmp": [],
        "seen": "",
        "prefix": "/run/environment",
        "package": True,
        "child": "42\n",
        "shell": "42\n",
        "script": "greeted by me\n",
    }
