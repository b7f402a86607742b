"""What a run may use up: rounds, calls, tokens, money, time, and the same call again and again."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run and everything below it may use up. None is no bound.

    Attributes:
        rounds: How many rounds with tools; in place of the agent's `max_rounds`.
        calls: How many calls, those that tools make included.
        tokens: How many tokens, those of requests and of answers together.
        cost: How much money, in the currency of the prices.
        seconds: How long the run may work. When it is over, running calls are interrupted, and
            a request to the model is ended. Time in which a run waits for a person does not count.
        repeats: How many times the same call may be made with the same arguments in a row. Each
            run counts its own, also a run inside this one.

    Raises:
        ValueError: A bound has a value that it can't have.

    Example:
        `Agent("openai:gpt-5", budget=Budget(calls=20, tokens=100_000))`
    """

    rounds: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    repeats: int | None = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"Budget: {field.name} is a number of 0 or more, not {value!r}")
            if field.name not in ("cost", "seconds") and not isinstance(value, int):
                raise ValueError(f"Budget: {field.name} is a whole number, not {value!r}")
        if self.repeats == 0:
            raise ValueError("Budget: repeats counts the first call too, and is 1 or more")
