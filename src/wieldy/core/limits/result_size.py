"""Cut a result that is too large to show, and hand the whole result over to be kept."""

from collections.abc import Awaitable, Callable

from wieldy.core.active_call import ActiveCall, Handler, Middleware
from wieldy.core.block import Block, Resource, Text, join_text, to_text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import describe_exception
from wieldy.core.secrets.secret import redact_text

Spill = Callable[[Call, str], Awaitable[str]]


def limit_size(most: int, spill: Spill | None) -> Middleware:
    """A middleware that leaves a preview of `most` characters and a marker.

    `spill` gets the call and the whole text, and returns a handle that goes into
    the marker and into `metadata["spilled"]`.
    """

    async def cut(active: ActiveCall, proceed: Handler) -> Outcome:
        outcome = await proceed(active)
        if outcome.status is not Status.OK:
            _cut_shown(active, most)
            return outcome
        blocks = (*(active.blocks or ()), *(() if active.streamed else outcome.content))
        whole = join_text(blocks)
        if len(whole) <= most:
            return outcome
        whole = redact_text(whole, active.secrets)
        try:
            handle = None if spill is None else await spill(active.call, whole)
        except Exception as error:
            # A result that could not be kept elsewhere is not cut, so that nothing is lost.
            active.note("spill_error", describe_exception(error))
            return outcome
        where = "the rest was not kept" if handle is None else f"the whole is at {handle}"
        marker = f"\n[cut: {most:,} of {len(whole):,} characters shown, {where}]"
        active.note("cut", {"shown": most, "total": len(whole)})
        if handle is not None:
            active.note("spilled", handle)
        shown = whole[:most] + marker
        others = [without_text(block) for block in blocks if not isinstance(block, Text)]
        if active.blocks:
            # A reader has seen these blocks already; the preview is for the outcome.
            active.end_stream()
            active.blocks, active.streamed, active.sink = (), False, None
        value = shown if len(to_text(outcome.value)) > most else outcome.value
        return Outcome(
            active.call, Status.OK, value, content=(Text(shown), *others), metadata=outcome.metadata
        )

    return cut


def _cut_shown(active: ActiveCall, most: int) -> None:
    """Cut what a call showed before it failed."""
    blocks = active.blocks or ()
    whole = join_text(blocks)
    if len(whole) <= most:
        return
    whole = redact_text(whole, active.secrets)
    marker = f"\n[cut: {most:,} of {len(whole):,} characters shown]\n"
    others = [without_text(block) for block in blocks if not isinstance(block, Text)]
    active.blocks = [Text(whole[:most] + marker), *others]


def without_text(block: Block) -> Block:
    """A resource without its text, which the preview has; its address stays."""
    if not isinstance(block, Resource) or block.text is None:
        return block
    return Resource(block.uri, data=block.data, mime_type=block.mime_type, name=block.name)
