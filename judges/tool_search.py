"""Ask for GitHub's operations as people do: how often is the right one among the first five?

The questions were written before the ranking was looked at. Those of the part "development" may
be looked at when the ranking is changed; the figure is that of the part "reported". The tokens
that a model reads, with all operations shown and with search, go into docs/performance.md with
`--write`.
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
from wieldy.tools.tool_search import add_search_tools
from wieldy.wire.cost import definition_tokens, estimate_text_tokens

QUESTIONS = Path(__file__).with_name("tool_search_questions.json")
FORMATS: tuple[ProviderFormat, ...] = ("openai", "anthropic", "gemini", "mcp")
# A ranking that finds fewer of the reported ones among the first five has become worse.
LEAST = 0.70
Questions = list[dict[str, Any]]


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


async def token_rows(box: Toolbox, questions: Questions) -> list[list[str]]:
    """A line for each format: shown whole, by search, and room for code mode."""
    whole = {form: box.cost(form).total for form in FORMATS}
    add_search_tools(box)
    rows = [["format", "shown whole", "by search, at first", "by search, one tool", "by code mode"]]
    for form in FORMATS:
        first = box.view(session="new").cost(form).total
        used = mean([await search_tokens(box, each, form) for each in questions])
        rows.append([form, f"{whole[form]:,}", f"{first:,}", f"{used:,.0f}", ""])
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
