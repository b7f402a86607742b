"""Compute what the tokens of a request cost."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wieldy.wire.stream_events import Usage

# The prices of a million input and output tokens by the model's name, or a function that gets
# the model's name and the tokens of a request and returns the cost.
Prices: TypeAlias = Mapping[str, tuple[float, float]] | Callable[[str, Usage], float | None]
_MILLION = 1_000_000


class NoPrice(ValueError):
    """The price of a model is not known."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"A budget for cost needs a price, and there is none for {model!r}. Pass "
            f'prices={{"{model}": (per million in, per million out)}}, or install '
            'the prices of many models: pip install "wieldy[prices]"'
        )
        self.model = model


def request_cost(prices: Prices | None, model: str, usage: Usage | None) -> float:
    """The cost of a request; `NoPrice` if the model's price is not known."""
    counted = usage or Usage(0, 0, 0, 0, {})
    cost = _given_cost(prices, model, counted)
    if cost is None:
        cost = _known_cost(model, counted)
    if cost is None:
        raise NoPrice(model)
    return cost


def _given_cost(prices: Prices | None, model: str, usage: Usage) -> float | None:
    if prices is None:
        return None
    if not isinstance(prices, Mapping):
        return prices(model, usage)
    pair = prices.get(model) or prices.get(model.partition(":")[2])
    if pair is None:
        return None
    tokens = (usage.input_tokens or 0, usage.output_tokens or 0)
    return sum(each * count for each, count in zip(pair, tokens, strict=True)) / _MILLION


def _known_cost(model: str, usage: Usage) -> float | None:
    try:
        # This package is an extra, and is loaded only if there is a budget for costs.
        import genai_prices  # noqa: PLC0415
    except ImportError:
        return None
    provider, _, name = model.partition(":")
    known: Any = genai_prices.Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cached_tokens or 0,
    )
    try:
        return float(genai_prices.calc_price(known, name, provider_id=provider).total_price)
    except LookupError:
        return None
