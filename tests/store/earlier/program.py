"""The toolbox whose store and lock an earlier version wrote."""

from tests.mcp.conftest import raw
from wieldy import Toolbox


async def make_box(store: str | None = None, lock: str | None = None) -> Toolbox:
    """Functions and tools of an MCP server, each of which asks."""
    box = Toolbox(store=store, lock=lock)

    @box.tool(permission="confirm")
    async def wipe(path: str, deep: bool = False) -> str:
        """Wipe a path."""
        return f"wiped {path}"

    @box.tool(permission="confirm", idempotent=True, destructive=True)
    async def note(path: str) -> list[str]:
        """Note a path."""
        return [path]

    await box.add_mcp(raw("earlier"), name="shop", permission="confirm")
    return box
