"""A program that serves tools, for tests that start and stop it: `program.py [PORT] [STORE]`."""

import asyncio
import os
import subprocess
import sys
import time

from wieldy import Context, Toolbox
from wieldy.mcp import serve

port = sys.argv[1] if len(sys.argv) > 1 else ""
store = sys.argv[2] if len(sys.argv) > 2 else ""
grace = float(os.environ.get("GRACE", "20"))
box = Toolbox(store=f"sqlite:///{store}" if store else None)


@box.tool
def loud(word: str) -> str:
    """Print in every way there is."""
    print(word, flush=True)  # noqa: T201 - that is what is tested
    print(word)  # noqa: T201 - that is what is tested
    os.write(1, b"written to 1\n")
    subprocess.run([sys.executable, "-c", "print('a child', input())"], check=False, stderr=-1)
    return f"said {word}"


@box.tool
async def until(pipe: str, context: Context) -> str:
    """Go on until something is written to a named pipe."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    written = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, written.set)
    await context.progress(1, message="started")
    await written.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)
    return "it is there"


@box.tool
def stuck(context: Context) -> None:
    """Block a thread for long."""
    context.progress(1, message="started")
    time.sleep(15)


@box.tool(permission="confirm")
def wipe(path: str) -> str:
    """Wipe it."""
    return f"wiped {path}"


def ready(url: str) -> None:
    """Say where the server is."""
    sys.stderr.write(f"{url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    if port:
        asyncio.run(serve(box, port=int(port), grace=grace, ready=ready))
    else:
        asyncio.run(serve(box, grace=grace))
    sys.stderr.write("the end\n")
