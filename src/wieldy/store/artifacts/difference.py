"""Compare two texts, as a unified diff."""

from collections.abc import Iterator

_CONTEXT = 3
_Step = tuple[str, int, int, int, int]
# The most pairs of lines that are compared; in larger texts all that differs is one change.
_MOST_PAIRS = 1 << 34


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """The changed lines with three lines around them, as `patch` reads it; empty if none."""
    before, after = _split_lines(old), _split_lines(new)
    steps = _edit_steps(before, after)
    hunks = [_write_hunk(group, before, after) for group in _group_hunks(steps)]
    if not hunks:
        return ""
    return "".join([f"--- {old_name}\n", f"+++ {new_name}\n", *hunks])


def _split_lines(text: str) -> list[str]:
    """Lines as `patch` sees them: only a line feed ends one."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _edit_steps(before: list[str], after: list[str]) -> list[_Step]:
    """The steps from one list to the other that touch the fewest lines."""
    # Imported only when two texts are compared.
    from rapidfuzz.distance import Levenshtein  # noqa: PLC0415

    numbers: dict[str, int] = {}
    old = [numbers.setdefault(line, len(numbers)) for line in before]
    new = [numbers.setdefault(line, len(numbers)) for line in after]
    if len(old) * len(new) > _MOST_PAIRS:
        return _one_change(old, new)
    return [
        (step.tag, step.src_start, step.src_end, step.dest_start, step.dest_end)
        for step in Levenshtein.opcodes(old, new)
    ]


def _one_change(old: list[int], new: list[int]) -> list[_Step]:
    """One change between what is equal at both ends."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    a, b = len(old) - tail, len(new) - tail
    return [
        ("equal", 0, head, 0, head),
        ("replace", head, a, head, b),
        ("equal", a, len(old), b, len(new)),
    ]


def _group_hunks(steps: list[_Step]) -> Iterator[list[_Step]]:
    """The steps that make one hunk each: changes that share the lines around them."""
    group: list[_Step] = []
    for step in steps:
        if step[0] == "equal" and not group:
            group = [_last_lines(step)]
        elif step[0] == "equal" and step[2] - step[1] > 2 * _CONTEXT:
            yield [*group, _first_lines(step)]
            group = [_last_lines(step)]
        else:
            group.append(step)
    if group and group[-1][0] == "equal":
        group[-1] = _first_lines(group[-1])
    if any(step[0] != "equal" for step in group):
        yield group


def _first_lines(step: _Step) -> _Step:
    tag, a, b, c, d = step
    return tag, a, min(b, a + _CONTEXT), c, min(d, c + _CONTEXT)


def _last_lines(step: _Step) -> _Step:
    tag, a, b, c, d = step
    return tag, max(a, b - _CONTEXT), b, max(c, d - _CONTEXT), d


def _write_hunk(group: list[_Step], before: list[str], after: list[str]) -> str:
    (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
    shown = [f"@@ -{_write_range(a, b)} +{_write_range(c, d)} @@\n"]
    for tag, a, b, c, d in group:
        if tag == "equal":
            shown += [_write_line(" ", line) for line in before[a:b]]
        else:
            shown += [_write_line("-", line) for line in before[a:b]]
            shown += [_write_line("+", line) for line in after[c:d]]
    return "".join(shown)


def _write_range(start: int, end: int) -> str:
    """A range as `patch` writes it: from 1, and an empty range names the line before it."""
    count = end - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _write_line(sign: str, line: str) -> str:
    missing = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
    return f"{sign}{line}{missing}"
