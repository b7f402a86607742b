"""The connection to one worker, apart from any worker."""

import asyncio
import gc
import socket

from wieldy.execution.worker_link import WorkerLink


def test_a_connection_is_closed_even_if_its_loop_runs_no_more() -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.new_event_loop()
    link = WorkerLink(1, ours, lambda: None)
    link._listen_on(loop)

    link.close()
    loop.close()
    del link
    gc.collect()

    assert ours.fileno() == -1
    theirs.close()
