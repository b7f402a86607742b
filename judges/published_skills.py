"""Load every skill of some packages, read all of its files, and run some of its scripts.

The packages are other people's, at fixed versions. A skill that can't be loaded must be one of
those below, which nobody could load.
"""

import ast
import asyncio
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from wieldy import Outcome, Toolbox
from wieldy.tools.skills import SkillError, add_skills, find_skills

# What is wrong with the skills that are refused, by the name of their folder.
REFUSED = {
    "agirails-agent-payments": "it needs a description",
    "scholar-evaluation": "SKILL.md must begin with front matter",
}
LEAST_SKILLS, LEAST_FILES, LEAST_SCRIPTS = 1_200, 3_000, 40
# A file that the instructions of a skill name.
NAMED = re.compile(r"(?<![\w/.-])((?:scripts|references?|assets)/[\w./-]*\w\.\w{1,5})\b")


class Counts(Counter[str]):
    """What was found, and what is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(problem)


async def judge_skill(folder: Path, counts: Counts, runs: bool) -> None:
    """Load one skill, read what it has, and run one of its scripts."""
    box = Toolbox(approver=lambda parked: True)
    try:
        tools = add_skills(box, folder)
    except SkillError as error:
        counts["refused"] += 1
        known = REFUSED.get(folder.name)
        counts.expect(known is not None and known in str(error), f"{folder}: {error}")
        return
    async with box:
        (skill,) = find_skills(folder)
        counts["skills"] += 1
        body = await read_file(box, skill.name, "SKILL.md")
        counts.expect(body.ok, f"{folder}: {body.text[:200]}")
        for path in skill.files:
            outcome = await read_file(box, skill.name, path)
            counts.expect(outcome.ok, f"{folder}/{path}: {outcome.text[:200]}")
            counts["files"] += outcome.ok
        for path in set(NAMED.findall(skill.document.body)):
            # What is not there is the skill's fault, and the model is told so.
            there, outcome = (folder / path).is_file(), await read_file(box, skill.name, path)
            counts["named" if there else "named, but missing"] += 1
            told = outcome.ok if there else "no such file" in outcome.text or outcome.ok
            counts.expect(told, f"{folder} names {path}: {outcome.text[:200]}")
        script = next(find_scripts(folder), None) if runs and len(tools) > 1 else None
        if script is not None:
            asked = {"skill": skill.name, "script": script, "arguments": ["--help"]}
            outcome = await box.call("run_skill_script", asked)
            helps = outcome.ok and "usage" in outcome.text.lower()
            counts["scripts"] += helps
            counts.expect(helps, f"{folder}/{script}: {outcome.text[:500]}")


async def read_file(box: Toolbox, skill: str, path: str) -> Outcome:
    """What the model gets of a file."""
    return await box.call("read_skill", {"skill": skill, "path": path})


def find_scripts(folder: Path) -> Iterator[str]:
    """Scripts with a command line that need nothing but Python."""
    for path in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, ValueError):
            continue
        imported = set(_imported_names(tree))
        starts = "__main__" in ast.dump(tree)
        if starts and "argparse" in imported and imported <= sys.stdlib_module_names:
            yield path.relative_to(folder).as_posix()


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else (node.module or "").partition(".")[0]


async def main() -> int:
    """Judge all skills of the given folders; the exit code says whether all is well."""
    counts = Counts()
    for top in map(Path, sys.argv[1:]):
        for document in sorted(top.rglob("SKILL.md")):
            await judge_skill(document.parent, counts, counts["scripts"] < LEAST_SCRIPTS)
    counts.expect(counts["skills"] >= LEAST_SKILLS, "too few skills were found")
    counts.expect(counts["files"] >= LEAST_FILES, "too few files were found")
    counts.expect(counts["scripts"] >= LEAST_SCRIPTS, "too few scripts were found")
    counts.expect(counts["refused"] == len(REFUSED), "other skills are refused than were")
    for problem in counts.problems:
        print(problem, file=sys.stderr)
    print("published skills:", ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    return 1 if counts.problems else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
