"""A program of AgentScope's Toolkit: groups that a model switches on, and answers in chunks."""

import asyncio
from collections.abc import AsyncIterator

from pydantic import BaseModel, Field

from wieldy.dialects.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock


def says(text: str, is_last: bool = True) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text)], is_last=is_last)


async def google_search(query: str, api_key: str) -> ToolResponse:
    """Search the web.

    Args:
        query (str): what to look for
        api_key (str): the key of the service
    """
    return says(f"Found 3 pages about {query}.")


async def read_page(url: str) -> AsyncIterator[ToolResponse]:
    """Read a page, as it comes.

    Args:
        url (str): its address
    """
    text = f"{url}:"
    for word in ("once", "upon", "a time"):
        text += f" {word}"
        yield says(text, is_last=word == "a time")


def finish(response: str) -> ToolResponse:
    """Finish, with an answer for the user.

    Args:
        response (str): the answer
    """
    return says(response)


class Report(BaseModel):
    score: int = Field(description="from 1 to 5")


toolkit = Toolkit()
toolkit.create_tool_group("browsing", "Reading pages.", notes="Read one page at a time.")
toolkit.register_tool_function(google_search, preset_kwargs={"api_key": "not for the model"})
toolkit.register_tool_function(read_page, group_name="browsing")
toolkit.register_tool_function(toolkit.reset_equipped_tools)
toolkit.register_tool_function(finish)


async def act(name: str, **arguments: object) -> None:
    block = ToolUseBlock(type="tool_use", id="1", name=name, input=dict(arguments))
    async for chunk in await toolkit.call_tool_function(block):
        print(f"{name}: {chunk.content[0].get('text')}")
        if chunk.metadata:
            print(chunk.metadata)


async def main() -> None:
    print([schema["function"]["name"] for schema in toolkit.get_json_schemas()])
    print(toolkit.get_json_schemas()[0]["function"]["parameters"]["properties"])
    await act("google_search", query="tea")
    await act("reset_equipped_tools", browsing=True)
    await act("read_page", url="tea.example")
    toolkit.set_extended_model("finish", Report)
    await act("finish", response="Drink it hot.", score="?")
    await act("finish", response="Drink it hot.", score=5)
    print(toolkit.state_dict())


if __name__ == "__main__":
    asyncio.run(main())

# > ['google_search', 'reset_equipped_tools', 'finish']
# > {'query': {'type': 'string', 'description': 'what to look for'}}
# > google_search: Found 3 pages about tea.
# > reset_equipped_tools: These groups of tools are switched on now: browsing.
# > Follow these notes when you use them:
# > <notes>## About browsing Tools
# > Read one page at a time.</notes>
# > read_page: tea.example: once
# > read_page: tea.example: once upon
# > read_page: tea.example: once upon a time
# > finish: Error: Invalid arguments for finish: score: expected integer, got string "?"
# > finish: Drink it hot.
# > {'response_msg': {'score': 5}}
# > {'active_groups': ['browsing']}
