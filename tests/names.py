"""A resolver for tests, which says what it is told."""

from collections.abc import Mapping, Sequence


class Names:
    """Gives the addresses of each name, one answer after the other; the last one stays."""

    def __init__(self, answers: Mapping[str, list[Sequence[str]]]) -> None:
        self.answers = {name: list(said) for name, said in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        said = self.answers[host.rstrip(".")]
        return said.pop(0) if len(said) > 1 else said[0]
