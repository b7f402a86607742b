"""What `import wieldy` costs."""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from .effort import Effort
from .row import Row, amount, ratio

_PROBE = """
from time import process_time
started = process_time()
{statement}
spent = process_time() - started
import json, os
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[1])
print(json.dumps([spent, pages * os.sysconf("SC_PAGE_SIZE") / 1e6]))
"""
# Some environments set it, and every import would then compile anew.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_PYDANTIC = "from pydantic import BaseModel, TypeAdapter"


def startup(effort: Effort) -> list[Row]:
    """Import in a fresh process, in turn with pydantic alone."""
    (base_cpu, base_mb), (cpu, mb) = beside_pydantic("import wieldy", effort.rounds(15))
    return [
        ratio("import, CPU", cpu * 1e3, base_cpu * 1e3, "ms", "pydantic alone", 1.6),
        amount("import, resident memory", mb, base_mb, "MB", "pydantic alone", 32),
    ]


def beside_pydantic(
    statement: str, rounds: int, python: str = sys.executable
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least CPU seconds and megabytes of importing pydantic, and of the statement."""
    pairs = []
    with TemporaryDirectory() as bytecode:
        # The first pass compiles, and an import is measured as it is from then on.
        for number in range(rounds + 1):
            pair = [_imported(each, python, bytecode) for each in (_PYDANTIC, statement)]
            if number > 0:
                pairs.append(pair)
    base, ours = ([pair[place] for pair in pairs] for place in (0, 1))
    return _least(base), _least(ours)


def _imported(statement: str, python: str, bytecode: str) -> tuple[float, float]:
    """CPU seconds and megabytes of one import in a fresh process."""
    kept = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    done = subprocess.run(
        [python, "-c", _PROBE.format(statement=statement)],
        env={**kept, "PYTHONPYCACHEPREFIX": bytecode},
        capture_output=True,
        text=True,
        check=True,
    )
    cpu, mb = json.loads(done.stdout.strip().splitlines()[-1])
    return cpu, mb


def _least(measured: list[tuple[float, float]]) -> tuple[float, float]:
    return min(cpu for cpu, _ in measured), min(mb for _, mb in measured)
