"""`wieldy check --cost`: count tokens, and say which change broke the provider's cache."""

import asyncio
from dataclasses import dataclass
from typing import Any

from wieldy.cli import exits, screen
from wieldy.cli.sources import loaded_tools
from wieldy.lock.cost_file import COST_FILE, read_costs, write_costs
from wieldy.wire.cache_change import CacheChange, compare_costs
from wieldy.wire.cost import Cost, tool_cost
from wieldy.wire.schema.target import PROVIDERS


@dataclass(frozen=True, slots=True)
class CostRecord:
    """The file that records counts, and whether this count is recorded."""

    path: str = COST_FILE
    writes: bool = True


def run_cost(
    sources: list[str] | None,
    providers: list[str],
    strict: bool,
    record: CostRecord,
    as_json: bool,
) -> int:
    """Count the definitions, compare them with the last count, and record them."""

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources) as found:
            before = read_costs(record.path)
            after = {
                _format_name(each, strict): tool_cost(found.box, each, strict)
                for each in providers or PROVIDERS
            }
            changes = {
                name: compare_costs(before[name], cost) if name in before else None
                for name, cost in after.items()
            }
            # Tools of a source that could not be read would look removed the next time.
            recorded = record.writes and not found.failed
            if recorded:
                write_costs(record.path, {**before, **after})
            if as_json:
                screen.put([_cost_data(after[name], changes[name]) for name in after])
            else:
                for name, cost in after.items():
                    _show_cost(name, cost, changes[name], record.path)
                if record.writes and not recorded:
                    screen.say(f"Nothing was recorded in {record.path}: a source failed.")
            broken = any(each is not None and each.broken is not None for each in changes.values())
            return found.exit_code(exits.FAILED if broken else exits.OK)

    return exits.guarded(work)


def _format_name(provider: str, strict: bool) -> str:
    return f"{provider} strict" if strict else provider


def _cost_data(cost: Cost, change: CacheChange | None) -> dict[str, Any]:
    return {**cost.to_dict(), "cache": None if change is None else change.to_dict()}


def _show_cost(name: str, cost: Cost, change: CacheChange | None, path: str) -> None:
    tools = f"{len(cost.definitions):,} tool{'' if len(cost.definitions) == 1 else 's'}"
    screen.show(f"{name}: {tools}, about {cost.total:,} tokens, {cost.bytes:,} bytes")
    screen.show(str(cost))
    if change is None:
        screen.show(f"There is no earlier count of {name} in {path} to compare with.")
        return
    if change.broken is None:
        kept = f"{_tell_prefix(change)}, of {change.kept_tokens:,} tokens"
        screen.show(f"The cache holds: {kept}.", "green")
    else:
        screen.show(_tell_break(change), "yellow")
    for tool, kind in change.changes.items():
        screen.show(f"  {kind:9} {screen.line(tool, 80)}")


def _tell_break(change: CacheChange) -> str:
    broken = change.broken
    assert broken is not None
    return (
        f"The cache is lost from byte {broken.at_byte:,} on, after {broken.at_token:,} tokens, "
        f"because {screen.line(broken.tool, 80)} was {broken.kind}. "
        f"{_tell_prefix(change)}, and {broken.lost_tokens:,} tokens of definitions are read anew."
    )


def _tell_prefix(change: CacheChange) -> str:
    count = "1 definition is" if change.kept == 1 else f"{change.kept:,} definitions are"
    return f"{count} a stable prefix"
