"""What the programs for Agently's agents have in common: two sides, one model server."""

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

from model_server import ModelServer
from report import Side, Steps

BOOK = {"title": (str, "its title"), "year": (int, "of its first print")}
SHELF = {"owner": (str, "who"), "books": [{"title": (str, "its title"), "pages": (int,)}]}
EMMA = {"title": "Emma", "year": 1815}
NOVELS = [{"title": "Emma", "pages": 474}, {"title": "Ulysses", "pages": 730}]
BOOKS = {"owner": "Ann", "books": NOVELS}
WORDS = ("Who wrote Emma?", "be brief", "shelf A", "like this", "its title", "of its first print")


def load(side: str) -> Side:
    """The names of one side."""
    if side == "wieldy":
        from wieldy.agent import ChatSessionExtension
        from wieldy.dialects.agently import Agently, AgentlyMain

        return Side(Agently, AgentlyMain, ChatSessionExtension)
    from agently import Agently, AgentlyMain
    from agently.builtins.agent_extensions import ChatSessionExtension

    return Side(Agently, AgentlyMain, ChatSessionExtension)


class Desk:
    """Where a program sits: the entrance, agents, and the server that answers them."""

    def __init__(self, side: Side) -> None:
        self.agently, self.main, self.chatting = side.names
        self.server = ModelServer()
        reach = {"base_url": self.server.address, "model": "scripted", "api_key": "key"}
        self.agently.set_settings("OpenAICompatible", reach)

    def agent(self, *answers: Any, name: str | None = None) -> Any:
        """A new agent, and what the model says to it."""
        self.server.say(*answers)
        return self.agently.create_agent(name)

    def asked(self, *answers: Any) -> Any:
        """An agent with a question for the model to answer."""
        return self.agent(*answers).input("Who wrote Emma?")

    @property
    def sent(self) -> list[Any]:
        """Who speaks in each request, and which of the known words the last message has."""
        return [_facts(each) for each in self.server.requests]


def _facts(request: dict[str, Any]) -> dict[str, Any]:
    messages = request["messages"]
    last = json.dumps(messages[-1]["content"])
    return {
        "roles": [each["role"] for each in messages],
        "told": [each for each in WORDS if each in last],
    }


def run_groups(side: Side, *groups: Callable[["Desk"], Steps]) -> Steps:
    """The steps of several groups at one desk."""
    desk = Desk(side)
    for group in groups:
        for name, step in group(desk):
            yield name, _quiet(step)


def _quiet(step: Callable[[], Any]) -> Callable[[], Any]:
    """Leave what a library prints out of the report."""

    def run() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return step()

    return run
