"""An MCP server with one tool, which `make run` starts and connects to."""

import asyncio

from wieldy import Toolbox
from wieldy.mcp import serve

words = Toolbox()


@words.tool(read_only=True)
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


if __name__ == "__main__":
    asyncio.run(serve(words, name="words"))
