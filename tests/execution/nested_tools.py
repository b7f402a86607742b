"""Tools for a worker in another process, which call in somebody else's name."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from wieldy import Call, Context, Scope, Toolbox, carry
from wieldy.execution import remote_box

_go_on = threading.Event()
_told: "SimpleQueue[str]" = SimpleQueue()


def call_of_helper() -> Call:
    """A call that names somebody else than whoever it is nested in."""
    return Call("wipe", {}, Scope(agent="helper", session="s2", caller="bob"))


def call_wipe(context: Context) -> str:
    """Call `wipe` from a worker."""
    return context.call_sync(call_of_helper()).status.value


def call_wipe_in_a_thread(context: Context) -> str:
    """Call `wipe` from a thread of a worker."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call_wipe, context).result()


def leave_thread(context: Context, kind: str, box: Toolbox) -> None:
    """Leave a thread in the worker, which calls `wipe` while another call runs, or none."""
    alone = kind == "between calls"
    call = context.call_sync if kind == "context" else carry(box.call_sync)

    def work() -> None:
        while alone and remote_box._links[0].serial is not None:
            threading.Event().wait(0.001)
        if not alone:
            _go_on.wait()
        try:
            said = (box.call_sync if alone else call)(call_of_helper()).status.value
        except RuntimeError as error:
            said = str(error)
        _told.put(said)
        logging.getLogger("tests.left").warning(said)

    threading.Thread(target=work, daemon=True).start()


def hear() -> str:
    """Tell the thread to call, and say what came of it."""
    _go_on.set()
    said = _told.get(timeout=120)
    _go_on.clear()
    return said
