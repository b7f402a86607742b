"""An agent behind a web framework: a question, the calls that wait, and a person's decision."""

import asyncio
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from wieldy import Call
from wieldy.agent import Agent, NotPending, RunBusy, RunInterrupted
from wieldy.testing import ScriptedModel

model = ScriptedModel([Call("refund", {"order": "A-17", "amount": 30}), "The 30 are paid back."])
agent = Agent(model, name="desk", tool_strategy="native", store="sqlite:///desk.db")


def refund(order: str, amount: int) -> str:
    """Pay an order back."""
    return f"{amount} paid back for {order}"


agent.toolbox.add(refund, tags=[agent.tag], permission="confirm")


async def answer(work: Any) -> JSONResponse:
    """The answer, or what a person has to decide first."""
    try:
        return JSONResponse({"answer": await work})
    except RunInterrupted as error:
        pending = [parked.to_dict() for parked in error.pending]
        return JSONResponse({"run": error.run_id, "pending": pending}, 202)
    except (NotPending, RunBusy) as error:
        return JSONResponse({"error": str(error)}, 409)


async def ask(request: Request) -> JSONResponse:
    question = (await request.json())["question"]
    return await answer(agent.input(question).async_start())


async def decide(request: Request) -> JSONResponse:
    decisions = await request.json()
    return await answer(agent.async_resume(request.path_params["run"], decisions, by="ann"))


app = Starlette(
    routes=[
        Route("/ask", ask, methods=["POST"]),
        Route("/runs/{run}", decide, methods=["POST"]),
    ]
)


async def main() -> None:
    """What a browser would send."""
    transport = httpx2.ASGITransport(app=app)
    async with agent, httpx2.AsyncClient(transport=transport, base_url="http://desk") as client:
        asked = await client.post("/ask", json={"question": "I want my money back."})
        [parked] = asked.json()["pending"]
        print(asked.status_code, parked["tool"], parked["arguments"])
        place = f"/runs/{asked.json()['run']}"
        wrong = await client.post(place, json={"another call": {"approved": True}})
        print(wrong.status_code)
        decided = await client.post(place, json={parked["call_id"]: {"approved": True}})
        print(decided.status_code, decided.json())


asyncio.run(main())
# > 202 refund {'order': 'A-17', 'amount': 30}
# > 409
# > 200 {'answer': 'The 30 are paid back.'}
