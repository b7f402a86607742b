"""Bound what is passed on of resources and prompts, as results of calls are."""

from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Block, Resource, Text, read_block
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.limits.model_results import ModelResults

from .passed_meta import foreign_meta

Shape = dict[str, Any]
_LONGEST_DESCRIPTION = 10_000
# The interface of an app is shown to a person, and no model reads it.
_APP = "profile=mcp-app"


async def bound_contents(
    results: ModelResults, call: Call, contents: Sequence[Shape]
) -> list[Shape]:
    """The contents of a resource as a client reads them at once; the rest is kept."""
    kept = [_bound_meta(each) for each in contents]
    apps = [each for each in kept if _APP in str(each.get("mimeType"))]
    read = [each for each in kept if each not in apps]
    cut = await _cut_blocks(results, call, map(_read_content, read))
    if cut is None:
        return kept
    return [*apps, *(_write_content(each, str(read[0].get("uri"))) for each in cut)]


async def bound_prompt(results: ModelResults, call: Call, shape: Shape) -> Shape:
    """The description and the messages of a prompt, of which the rest is kept."""
    described = shape.get("description")
    facts = {"description": described[:_LONGEST_DESCRIPTION]} if described else {}
    messages = [{**each, "content": _bound_meta(each["content"])} for each in shape["messages"]]
    cut = await _cut_blocks(results, call, (read_block(each["content"]) for each in messages))
    if cut is None:
        return {**facts, "messages": messages}
    role = messages[0]["role"]
    return {**facts, "messages": [{"role": role, "content": each.to_dict()} for each in cut]}


async def _cut_blocks(
    results: ModelResults, call: Call, blocks: Iterable[Block]
) -> Sequence[Block] | None:
    """The blocks that are read at once, with where the rest is; None if that is all of them."""
    facts = {"untrusted": True}
    whole = Outcome(call, Status.OK, content=tuple(blocks), metadata=facts)
    shown = await results.for_model(whole)
    return None if shown is whole else shown.content


def _bound_meta(shape: Shape) -> Shape:
    return {**shape, "_meta": foreign_meta(shape["_meta"])} if "_meta" in shape else shape


def _read_content(content: Shape) -> Block:
    """The text of a resource, which can be cut anywhere, or its bytes."""
    if isinstance(content.get("text"), str):
        return Text(content["text"])
    return read_block({"type": "resource", "resource": content})


def _write_content(block: Block, uri: str) -> Shape:
    if isinstance(block, Resource):
        return {"uri": block.uri, "mimeType": block.mime_type, "blob": block.data or ""}
    return {"uri": uri, "mimeType": "text/plain", "text": getattr(block, "text", "")}
