"""Find out from where on a provider's cache is lost, after the definitions of tools changed."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .cost import Cost, DefinitionCost

ChangeKind = Literal["changed", "inserted", "removed", "moved"]


@dataclass(frozen=True, slots=True)
class CacheBreak:
    """The first definition that differs from what was sent before.

    Attributes:
        tool: The tool that is to blame.
        kind: What happened to it.
        at_byte: How many bytes of the definitions a provider still finds in its cache.
        at_token: How many tokens that are.
        lost_tokens: How many tokens of definitions are read anew.
    """

    tool: str
    kind: ChangeKind
    at_byte: int
    at_token: int
    lost_tokens: int


@dataclass(frozen=True, slots=True)
class CacheChange:
    """What a change of the definitions means for a provider's cache.

    Attributes:
        provider: The format.
        kept: How many definitions are a stable prefix: the same ones in the same order.
        kept_bytes: How many bytes they take, rendered.
        kept_tokens: How many tokens they take.
        broken: Where the cache is lost; None if definitions were at most appended.
        changes: Every tool that changed, with what happened to it; new tools at the end are
            "appended".
    """

    provider: str
    kept: int
    kept_bytes: int
    kept_tokens: int
    broken: CacheBreak | None
    changes: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain JSON."""
        return asdict(self)


def compare_costs(before: Cost, after: Cost) -> CacheChange:
    """Compare definitions with those that were sent before.

    Providers cache a request from its beginning to the first byte that differs, and the
    definitions stand at the beginning.

    Args:
        before: What was sent.
        after: What will be sent.

    Returns:
        How much of the definitions stays cached, and which tool broke the rest.

    Example:
        `compare_costs(yesterday, box.cost("anthropic")).broken`
    """
    old, new = before.definitions, after.definitions
    kept = _common_length(old, new)
    tokens = sum(each.tokens for each in new[:kept])
    # The list's bracket, and a comma or the closing bracket behind each definition.
    size = 1 + sum(each.bytes + 1 for each in new[:kept])
    broken = None
    if kept < len(old):
        tool, kind = _find_cause(old[kept:], new[kept:])
        broken = CacheBreak(tool, kind, size, tokens, after.total - tokens)
    return CacheChange(after.provider, kept, size, tokens, broken, _list_changes(old, new))


def _common_length(old: Sequence[DefinitionCost], new: Sequence[DefinitionCost]) -> int:
    kept = 0
    for one, other in zip(old, new, strict=False):
        if (one.name, one.digest) != (other.name, other.digest):
            break
        kept += 1
    return kept


def _find_cause(
    old: Sequence[DefinitionCost], new: Sequence[DefinitionCost]
) -> tuple[str, ChangeKind]:
    """Find the tool because of which the old list does not begin as the new one does."""
    was, names = old[0].name, [each.name for each in new]
    if was not in names:
        return was, "removed"
    now = names[0]
    if now == was:
        return was, "changed"
    return (now, "moved") if any(each.name == now for each in old) else (now, "inserted")


def _list_changes(old: Sequence[DefinitionCost], new: Sequence[DefinitionCost]) -> dict[str, str]:
    before = {each.name: each.digest for each in old}
    after = {each.name: at for at, each in enumerate(new)}
    changes = {name: "removed" for name in before if name not in after}
    stayed = _find_stayed([*before], [*after])
    last = max((after[name] for name in before if name in after), default=-1)
    for at, each in enumerate(new):
        if each.name not in before:
            changes[each.name] = "inserted" if at < last else "appended"
        elif each.name not in stayed:
            changes[each.name] = "moved"
        elif before[each.name] != each.digest:
            changes[each.name] = "changed"
    return changes


def _find_stayed(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """The most names that are in the same order in both; the others have moved."""
    place = {name: at for at, name in enumerate(old)}
    places = [place[name] for name in new if name in place]
    # The longest rising run of places: `ends` are the smallest last places of runs of each length.
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for at in places:
        length = bisect_left(ends, at)
        before[at] = ends[length - 1] if length else None
        ends[length : length + 1] = [at]
    stayed = set()
    last = ends[-1] if ends else None
    while last is not None:
        stayed.add(old[last])
        last = before[last]
    return stayed
