"""An agent with a tool that needs approval, and an answer that is used while it comes.

The model is scripted, so that the example runs without a key: replace it with a name
such as "openai:gpt-5".
"""

import asyncio

from wieldy import Call, Outcome
from wieldy.agent import Agent
from wieldy.core.tool import Tool
from wieldy.testing import ScriptedModel

MODEL = ScriptedModel(
    [
        [Call("find_order", {"customer": "Ada"}), Call("refund", {"order": 7, "cents": 1200})],
        {"reply": "Your money is on its way.", "steps": ["looked up order 7", "sent 12.00"]},
    ]
)
OUTPUT = {"reply": (str, "what the customer reads"), "steps": [(str, "what was done")]}

agent = Agent(MODEL, name="support", tool_strategy="native")


@agent.tool_func
def find_order(customer: str) -> dict[str, int]:
    """Find a customer's last order."""
    return {"order": 7, "cents": 1200}


def refund(order: int, cents: int) -> str:
    """Send money back."""
    return f"sent {cents} cents for order {order}"


agent.use_tools(Tool(refund, permission="confirm"))


async def decide(receipt: Outcome) -> Outcome:
    """Let somebody decide on a call that waits; here everything up to 20.00 is fine."""
    (parked,) = await agent.toolbox.pending()
    print("asked about", parked.tool, dict(parked.shown))
    if parked.arguments["cents"] > 2000:
        return await agent.toolbox.deny(parked.id, by="example", reason="too much")
    return await agent.toolbox.approve(parked.id, by="example")


async def main() -> None:
    response = agent.input("I want my money back.").output(OUTPUT).get_response(decide=decide)
    async for event in response.get_async_generator("instant"):
        if event.is_complete and event.wildcard_path in ("reply", "steps[*]"):
            print(event.path, "=", event.value)
    # The calls ran at the same time, and each was logged when it ended.
    logs = response.full_result_data["extra"]["tool_logs"]
    for log in sorted(logs, key=lambda log: str(log["tool_name"])):
        print(log["tool_name"], "gave", log["result"])


if __name__ == "__main__":
    asyncio.run(main())

# > asked about refund {'order': 7, 'cents': 1200}
# > reply = Your money is on its way.
# > steps[0] = looked up order 7
# > steps[1] = sent 12.00
# > find_order gave {'order': 7, 'cents': 1200}
# > refund gave sent 1200 cents for order 7
