"""The server that other people's clients use: `box.py` over a pipe, `box.py --port N` over HTTP."""

import argparse
import asyncio

from wieldy import Toolbox
from wieldy.mcp import serve

box = Toolbox()


@box.tool(read_only=True)
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first one
        b: the second one
    """
    return a + b


@box.tool
def repeat(text: str, times: int = 1) -> list[str]:
    """Say a text several times."""
    return [text] * times


@box.tool
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@box.tool
def misfit() -> int:
    """Give something else than is said."""
    return "three"  # type: ignore[return-value]


@box.tool(permission="deny")
def wipe() -> str:
    """Never run, and so never shown."""
    return "it ran"


box.rules.deny("repeat", where={"times": 1000}, reason="that is too often")


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    asyncio.run(serve(box, port=parser.parse_args().port))


if __name__ == "__main__":
    main()
