"""Measure in a process of its own, where what ran before would count."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .effort import Effort

ROOT = Path(__file__).parents[1]
_SECONDS = 300


def in_child(function: Callable[[Effort], Any], effort: Effort, *, one_core: bool = False) -> Any:
    """What `function(effort)` gives in a fresh process, as JSON carries it."""
    place = f"{function.__module__}:{function.__name__}"
    command = [sys.executable, "-m", "bench.child", place, str(effort.share)]
    return run_json([*command, "one-core"] if one_core else command)


def run_json(command: list[str]) -> Any:
    """Run a command in the repository and read the JSON it prints last."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(reason[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def resident_mb() -> float:
    """The memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _main(place: str, share: str, *options: str) -> None:
    if "one-core" in options:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    module, _, name = place.partition(":")
    function = getattr(importlib.import_module(module), name)
    print(json.dumps(function(Effort(float(share)))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
