"""A tool for a worker in another process, which calls in somebody else's name."""

from wieldy import Call, Context, Scope


def call_wipe(context: Context) -> str:
    """Call `wipe` from a worker."""
    call = Call("wipe", {}, Scope(agent="helper", session="s2", caller="bob"))
    return context.call_sync(call).status.value
