"""Run a server."""


async def serve() -> None:
    """Serve."""
