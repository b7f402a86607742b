"""Compare two texts, as a unified diff."""

from collections.abc import Iterator

_CONTEXT = 3
_Step = tuple[str, int, int, int, int]
# The most pairs of lines that are compared, with a bit for each; in larger texts all that differs
# is one change.
_MAX_PAIRS = 1 << 30


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
    """The steps from one list to the other that keep the most lines."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)
    end = (len(before) - tail, len(after) - tail)
    kept = _find_kept(before[head : end[0]], after[head : end[1]])
    runs = [(0, 0, head), *((head + a, head + b, 1) for a, b in kept), (*end, tail)]
    steps: list[_Step] = []
    a = b = 0
    for next_a, next_b, length in runs:
        if (a, b) != (next_a, next_b):
            steps.append(("replace", a, next_a, b, next_b))
        a, b = next_a + length, next_b + length
        if steps and steps[-1][0] == "equal":
            steps[-1] = ("equal", steps[-1][1], a, steps[-1][3], b)
        elif length:
            steps.append(("equal", next_a, a, next_b, b))
    return steps


def _find_kept(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence, in both lists.

    The table of its lengths has a row for each old line, and lengths in a row grow by one at
    most. So a row is an integer with a bit for each new line, which is 0 where the length grows
    (Hyyrö 2004).
    """
    if len(old) * len(new) > _MAX_PAIRS:
        return []
    places: dict[str, list[int]] = {line: [] for line in old}
    for at, line in enumerate(new):
        if line in places:
            places[line].append(at)
    width = len(new) // 8 + 1
    masks = {line: _set_bits(found, width) for line, found in places.items()}
    row = whole = (1 << len(new)) - 1
    rows = [row.to_bytes(width, "little")]
    for line in old:
        matched = row & masks[line]
        row = ((row + matched) | (row - matched)) & whole
        rows.append(row.to_bytes(width, "little"))
    kept = []
    a, b = len(old), len(new)
    while a and b:
        place, bit = divmod(b - 1, 8)
        if rows[a][place] >> bit & 1:
            b -= 1
        elif rows[a - 1][place] >> bit & 1:
            a, b = a - 1, b - 1
            kept.append((a, b))
        else:
            a -= 1
    return kept[::-1]


def _set_bits(places: list[int], width: int) -> int:
    """An integer of so many bytes with these bits set, made in one go."""
    bits = bytearray(width)
    for at in places:
        bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


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
