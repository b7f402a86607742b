"""What many tools cost that are registered and described, and not yet called."""

import gc
from time import process_time

from wieldy import Toolbox

from .child import in_child, resident_mb
from .effort import Effort
from .reference import pydantic_model
from .row import Row, amount, ratio
from .sample import make_eight, make_three, named

_AGAINST = "pydantic create_model + schema"


def catalog(effort: Effort) -> list[Row]:
    """A thousand tools beside a thousand models, and ten thousand beside a thousand."""
    pairs = [
        (in_child(by_pydantic, effort), in_child(by_wieldy, effort))
        for _ in range(effort.rounds(3))
    ]
    base_cpu, base_mb = (min(base[place] for base, _ in pairs) for place in (0, 1))
    cpu, mb = (min(ours[place] for _, ours in pairs) for place in (0, 1))
    few, many = in_child(growth, effort)
    tools = f"{effort.count(1000):,} tools described"
    return [
        ratio(f"{tools}, CPU", cpu, base_cpu, "s", _AGAINST, 0.9),
        amount(f"{tools}, memory", mb, base_mb, "MB", _AGAINST, 10),
        ratio(
            f"{effort.count(10_000):,} tools described, per tool",
            many * 1e3,
            few * 1e3,
            "ms",
            f"per tool of {effort.count(1000):,}",
            1.25,
        ),
    ]


def by_pydantic(effort: Effort) -> tuple[float, float]:
    """CPU seconds and megabytes of models with their schemas, all kept."""
    functions = [make_eight() for _ in range(effort.count(1000))]
    first = pydantic_model(make_eight(), "Warm")
    first.model_json_schema()
    gc.collect()
    before, started = resident_mb(), process_time()
    models = [pydantic_model(function, f"T{n}") for n, function in enumerate(functions)]
    kept = [(model, model.model_json_schema()) for model in models]
    spent = process_time() - started
    gc.collect()
    assert len(kept) == len(functions)
    return spent, resident_mb() - before


def by_wieldy(effort: Effort) -> tuple[float, float]:
    """CPU seconds and megabytes of a box whose tools have all been described."""
    functions = [make_eight() for _ in range(effort.count(1000))]
    _warm_up()
    gc.collect()
    before, started = resident_mb(), process_time()
    box = Toolbox()
    for number, function in enumerate(functions):
        box.add(function, name=f"tool_{number}")
    described = box.schemas()
    spent = process_time() - started
    gc.collect()
    assert len(described) == len(functions)
    return spent, resident_mb() - before


def growth(effort: Effort) -> tuple[float, float]:
    """CPU seconds per tool, of few and of ten times as many smaller tools."""
    _warm_up()
    return _per_tool(effort.count(1000)), _per_tool(effort.count(10_000))


def _per_tool(count: int) -> float:
    gc.collect()
    started = process_time()
    box = Toolbox()
    for name, function in named(count, make_three):
        box.add(function, name)
    box.schemas()
    return (process_time() - started) / count


def _warm_up() -> None:
    box = Toolbox()
    box.add(make_eight())
    box.schemas()
