"""Ask for GitHub's operations as people do: how often is the right one among the first five?

The questions were written before the ranking was looked at. Those of the part "development" may
be looked at when the ranking is changed; the figure is that of the part "reported". The tokens
that a model reads, with all operations shown, with search and in code mode, go into
docs/performance.md with `--write`.
"""

import asyncio
import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from bench.page import write
from bench.table import markdown
from wieldy import Toolbox
from wieldy.core.choices import ProviderFormat
from wieldy.tools.code_mode import add_code_mode
from wieldy.tools.tool_search import add_search_tools
from wieldy.wire.cost import definition_tokens, estimate_text_tokens
from wieldy.wire.python_names import python_names

QUESTIONS = Path(__file__).with_name("tool_search_questions.json")
FORMATS: tuple[ProviderFormat, ...] = ("openai", "anthropic", "gemini", "mcp")
# A ranking that finds fewer of the reported ones among the first five has become worse.
LEAST = 0.70
Questions = list[dict[str, Any]]
STAGES = ("at first", "one tool")


def rank_of(box: Toolbox, question: dict[str, Any]) -> int:
    """The place of the first tool that would do, counted from 1; a large one if there is none."""
    found = [tool.name for tool in box.search(question["question"], limit=20)]
    return next((at for at, name in enumerate(found, 1) if name in question["tools"]), 1_000)


def judge_ranking(box: Toolbox, part: str, questions: Questions) -> float:
    """Print how often the right tool comes first, or among the first; gives it for five."""
    missing = {name for each in questions for name in each["tools"] if name not in box}
    assert not missing, f"GitHub has no {missing}"
    ranks = [rank_of(box, each) for each in questions]
    shares = {most: mean(rank <= most for rank in ranks) for most in (1, 5, 8)}
    told = ", ".join(f"{share:.0%} among the first {most}" for most, share in shares.items())
    print(f"{part}: {len(questions)} questions over {len(box)} operations, {told}")
    return shares[5]


async def search_tokens(box: Toolbox, question: dict[str, Any], form: ProviderFormat) -> int:
    """What a model reads of tools: the two that it sees, what it finds, and the one it loads."""
    outcome = await box.call("search_tools", {"query": question["question"]})
    first = box.view(session="new").cost(form).total
    needed = box.get(question["tools"][0])
    assert needed is not None
    return first + estimate_text_tokens(outcome.text) + definition_tokens(needed, form)


async def found_tokens(box: Toolbox, question: dict[str, Any]) -> int:
    """What a program prints for a model: functions that fit, and the signature of one."""
    (name,) = python_names(question["tools"][:1]).values()
    lines = [
        f"print('\\n'.join(await find_functions({question['question']!r})))",
        f"print(await describe_function({name!r}))",
    ]
    outcome = await box.call("run_code", {"code": "\n".join(lines)})
    assert outcome.ok, outcome.text
    return estimate_text_tokens(outcome.text)


async def token_rows(box: Toolbox, questions: Questions) -> list[list[str]]:
    """A line for each format: shown whole, by search, and by code mode."""
    whole = {form: box.cost(form).total for form in FORMATS}
    program = add_code_mode(box.view())
    functions = mean([await found_tokens(box, each) for each in questions])
    one = {form: definition_tokens(program, form) for form in FORMATS}
    box.remove(program.name)
    add_search_tools(box)
    ways = ("by search", "by code mode")
    rows = [["format", "shown whole", *(f"{way}, {at}" for way in ways for at in STAGES)]]
    for form in FORMATS:
        first = box.view(session="new").cost(form).total
        used = mean([await search_tokens(box, each, form) for each in questions])
        counts = (whole[form], first, used, one[form], one[form] + functions)
        rows.append([form, *(f"{count:,.0f}" for count in counts)])
    return rows


async def main(document: Path, writes: bool) -> int:
    parts: dict[str, Questions] = json.loads(QUESTIONS.read_bytes())
    async with Toolbox() as box:
        await box.add_openapi(document)
        shares = {part: judge_ranking(box, part, each) for part, each in parts.items()}
        rows = await token_rows(box, parts["reported"])
    table = markdown(rows, (0,))
    print(table)
    if writes:
        write("tokens", table)
    if shares["reported"] < LEAST:
        print(f"fewer than {LEAST:.0%} are among the first five", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), "--write" in sys.argv)))
