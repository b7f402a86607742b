"""Answer a worker's requests to its toolbox: calls, streams and descriptions."""

import asyncio
from collections.abc import Callable
from typing import Any

from wieldy.core.active_call import ActiveCall

from .frames import Frame
from .remote_box import find_box
from .shipping import pack_error

Send = Callable[[Frame, tuple[Any, ...], Callable[[Exception], Any]], None]


async def answer_request(channel: ActiveCall, number: int, request: list[Any], send: Send) -> None:
    """Carry out a request in the context of the call that made it, and send the answer."""
    target, method, arguments, options = request

    def fail(error: BaseException) -> None:
        send(Frame.ANSWER, (number, False, pack_error(error)), _do_nothing)

    try:
        if method == "stream":
            value = await _stream_call(channel, number, target, arguments, options, send)
        else:
            value = await _ask_box(channel, target, method, arguments, options)
        send(Frame.ANSWER, (number, True, value), fail)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        fail(error)


async def _ask_box(
    channel: ActiveCall, target: Any, method: str, arguments: Any, options: Any
) -> Any:
    if target is None:
        return await channel.call_nested(*arguments, **options)
    box = _find_view(target)
    match method:
        case "call" | "call_many":
            return await getattr(box, method)(*arguments, **options)
        case "schemas":
            return box.schemas(*arguments)
        case "names":
            return box.names
    raise AttributeError(f"a toolbox has no {method!r} for a worker")


async def _stream_call(
    channel: ActiveCall, number: int, target: Any, arguments: Any, options: Any, send: Send
) -> Any:
    last = None
    async for item in _find_view(target).stream(*arguments, **options):
        if last is not None:
            send(Frame.PART, (number, last), _do_nothing)
        last = item
    return last


def _find_view(target: Any) -> Any:
    token, narrowing = target
    box = find_box(token)
    for criteria in narrowing:
        box = box.view(**criteria)
    return box


def _do_nothing(error: Exception) -> None:
    """Do nothing: a part that can't be sent is left out."""
