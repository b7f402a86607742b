"""An agent loop around a toolbox, in the message format of Anthropic's API.

The model here replays a script, so that the example runs anywhere. In a real
program `ask` calls the provider's SDK with the same `tools` and `messages`.
"""

import asyncio
from typing import Any

from wieldy import Toolbox
from wieldy.wire import anthropic

box = Toolbox()


@box.tool(read_only=True)
def forecast(city: str, days: int = 1) -> str:
    """Say what the weather will be."""
    return f"{days} day(s) of sun in {city}"


@box.tool(permission="confirm")
def book_table(place: str, people: int) -> str:
    """Book a table in a restaurant."""
    return f"a table for {people} at {place}"


SCRIPT: list[list[dict[str, Any]]] = [
    [
        {"type": "tool_use", "id": "t1", "name": "forecast", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "t2", "name": "forcast", "input": {"city": "Rome"}},
    ],
    [
        {
            "type": "tool_use",
            "id": "t3",
            "name": "book_table",
            "input": {"place": "Café", "people": "4"},
        }
    ],
    [{"type": "text", "text": "It is sunny, and the table waits for your approval."}],
]


async def ask(tools: list[dict[str, Any]], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model says next."""
    turn = sum(message["role"] == "assistant" for message in messages)
    return SCRIPT[turn]


async def converse(question: str) -> str:
    """Let the model call tools until it answers in words."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        reply = await ask(box.schemas("anthropic"), messages)
        messages.append({"role": "assistant", "content": reply})
        calls = anthropic.parse_calls(reply, box)
        if not calls:
            return "".join(part["text"] for part in reply)
        outcomes = await box.call_many(calls)
        for outcome in outcomes:
            print(outcome.call.provider_id, outcome.status, outcome.text.partition(" as ")[0])
        messages += anthropic.render(outcomes)


async def main() -> None:
    print(await converse("Sunny enough to eat outside? Book a table for four."))
    for parked in await box.pending():
        print("parked:", parked.tool, dict(parked.shown))


if __name__ == "__main__":
    asyncio.run(main())

# > t1 ok 1 day(s) of sun in Oslo
# > t2 error There is no tool named 'forcast'. Did you mean 'forecast'?
# > t3 pending The call of book_table waits for approval
# > It is sunny, and the table waits for your approval.
# > parked: book_table {'place': 'Café', 'people': 4}
