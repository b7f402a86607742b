"""Programs for what extends Agently's agents: tools, keys, functions, documents, sessions.

python agently_extensions_program.py original    # where agently is installed
python agently_extensions_program.py wieldy
"""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from agently_desk import BOOK, BOOKS, EMMA, SHELF, Desk, load, run_groups
from report import Side, Steps, main

YAML = """
.agent:
  system: You are ${role}.
  info:
    shelf: A
.request:
  input: Which book is by ${author}?
  output:
    title:
      $type: str
      $desc: its title
    tags:
      - $type: str
.alias:
  instruct:
    .args:
      - be brief
"""
JSON = """{
  // a comment
  "$system": "You are a librarian.",
  "input": "Which book?",
  "output": {"title": {".type": "str", ".desc": "its title"},},
}"""


def steps(side: Side) -> Steps:
    """What is done, and what comes of it."""
    return run_groups(side, tools, keys, functions, documents, sessions)


# Tools


def tools(desk: Desk) -> Steps:
    """What is run for an answer."""
    agent = desk.agent(name="calculator")
    called: list[Any] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        called.append((a, b))
        return a + b

    async def fail(why: str) -> str:
        """Fail."""
        raise RuntimeError(why)

    def ask(*uses: Any) -> Any:
        called.clear()
        desk.server.say("It is 3.")
        for tool, kwargs in uses:
            desk.server.use(tool, f"use {tool}", **kwargs)
        response = agent.input("1 + 2?").instruct("be brief").get_response()
        logs = [data for event, data in response.get_generator(type="all") if event == "tool"]
        return response, logs

    def tried(*uses: Any) -> Any:
        response, logs = ask(*uses)
        names = ("purpose", "tool_name", "kwargs", "result")
        return [
            response.get_text(),
            [{each: log.get(each) for each in names} for log in logs],
            called[:],
        ]

    def told(*uses: Any) -> Any:
        ask(*uses)
        return [
            "use add" in json.dumps(desk.server.requests[0]["messages"][-1]),
            all("Add two numbers." in json.dumps(each) for each in desk.server.questions),
            all("be brief" in json.dumps(each) for each in desk.server.questions),
        ]

    def kept() -> Any:
        response, _ = ask(("add", {"a": 1, "b": 2}))
        logs = response.result.full_result_data["extra"]["tool_logs"]
        return [(each["tool_name"], each["result"]) for each in logs]

    def first() -> Any:
        desk.server.say("It is 3.")
        desk.server.use("add", "sum", a=1, b=2)
        events = list(agent.input("1 + 2?").get_generator(type="all"))
        return events[0][0]

    yield (
        "an agent without tools asks once",
        lambda: [
            desk.asked("x").start(),
            len(desk.server.questions),
        ],
    )
    yield "a function as a tool", lambda: agent.use_tools(add) is agent
    yield "a decorated function", lambda: agent.tool_func(fail) is fail
    yield (
        "a described tool",
        lambda: (
            agent.register_tool(
                name="shout",
                desc="Say it aloud.",
                kwargs={"text": (str, "what")},
                func=lambda text: text.upper(),
            )
            is agent
        ),
    )
    yield (
        "tools of the agent",
        lambda: sorted(desk.agently.tool.get_tool_info(tags="agent-calculator")),
    )
    yield "tools of another agent", lambda: desk.agently.tool.get_tool_info(tags="agent-other")
    yield "no tool is wanted", tried
    yield "a tool is used", partial(tried, ("add", {"a": 1, "b": 2}))
    yield "a described tool is used", partial(tried, ("shout", {"text": "hi"}))
    yield "a tool that fails", partial(tried, ("fail", {"why": "no"}))
    yield "a tool that is missing", partial(tried, ("nope", {}))
    yield "a tool with wrong arguments", partial(tried, ("add", {"x": 1}))
    yield "what the model is told of tools", partial(told, ("add", {"a": 1, "b": 2}))
    yield "logs of tools", kept
    yield "the tool is told first", first
    yield (
        "a tool by name",
        lambda: [
            desk.agent(name="named").use_tools(["add"]) is not None,
            list(desk.agently.tool.get_tool_info(tags="agent-named")),
        ],
    )
    yield "a name that no tool has", lambda: agent.use_tools("none such")


# Keys


def keys(desk: Desk) -> Steps:
    """Values that are waited for."""

    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return f"later {value}"

    def waiter(wait: Callable[[Any], Any] = lambda agent: agent.start_waiter()) -> Any:
        agent = desk.asked(EMMA).output(BOOK)
        agent.when_key("title", lambda value: f"got {value}").on_key("title", later)
        return wait(agent.on_key("year", lambda value: value + 1))

    async def collect() -> Any:
        agent = desk.asked(EMMA).output(BOOK)
        return [each async for each in agent.async_wait_keys(["year", "title"])]

    yield "one key", lambda: desk.asked(EMMA).output(BOOK).get_key_result("title")
    yield "a nested key", lambda: desk.asked(BOOKS).output(SHELF).get_key_result("books[1].title")
    yield "a key that never comes", lambda: desk.asked(EMMA).output(BOOK).get_key_result("nope")
    yield "several keys", lambda: list(desk.asked(EMMA).output(BOOK).wait_keys(["year", "title"]))
    yield "several keys in a coroutine", lambda: asyncio.run(collect())
    yield "handlers of keys", waiter
    yield (
        "handlers of keys in a coroutine",
        lambda: asyncio.run(waiter(lambda agent: agent.async_start_waiter())),
    )
    yield "a key without an output", lambda: desk.asked("x").get_key_result("title")
    yield "a waiter without handlers", lambda: desk.asked("x").output(BOOK).start_waiter()
    yield (
        "a key that must be in the output",
        lambda: desk.asked(EMMA).output(BOOK).get_key_result("title", must_in_prompt=True),
    )
    yield (
        "a key that is not in the output",
        lambda: desk.asked(EMMA).output(BOOK).get_key_result("nope", must_in_prompt=True),
    )


# Functions


def functions(desk: Desk) -> Steps:
    """Functions whose body is the model."""

    def find(title: str, brief: bool = True) -> Any:
        """Find a book."""

    def describe(title: str) -> str:  # type: ignore[empty-body]
        """Describe a book."""

    def count(title: str) -> int:  # type: ignore[empty-body]
        """Count its pages."""

    def free(title: str):  # type: ignore[no-untyped-def]
        """Say anything."""

    async def find_later(title: str) -> Any:
        """Find a book, later."""

    # An annotation that is data is no type to a checker.
    find.__annotations__["return"] = {"author": (str, "who"), "year": (int,)}
    find_later.__annotations__["return"] = {"author": (str, "who")}

    def generate(title: str):  # type: ignore[no-untyped-def]
        yield title

    def call(function: Any, *answers: Any) -> Any:
        return desk.agent(*answers).auto_func(function)("Emma")

    def told() -> Any:
        call(find, {"author": "Jane Austen", "year": 1815})
        last = desk.server.requests[0]["messages"][-1]["content"]
        return [each for each in ("Emma", "brief", "Find a book.", "author", "who") if each in last]

    yield "a function that gives data", partial(call, find, {"author": "Jane", "year": 1815})
    yield "what such a function tells", told
    yield "a function that gives text", partial(call, describe, "A novel.")
    yield "a function that gives a number", partial(call, count, {"value": 474})
    yield "a function without an annotation", partial(call, free, "Anything.")
    yield "a coroutine function", lambda: asyncio.run(call(find_later, {"author": "Jane"}))
    yield "a generator", partial(call, generate)
    yield "a function without its argument", lambda: desk.agent().auto_func(find)()


# Documents


def documents(desk: Desk) -> Steps:
    """Prompts in YAML and JSON."""

    def yaml(text: str = YAML, **more: Any) -> Any:
        agent = desk.agent({"title": "Emma", "tags": ["novel"]})
        mappings = {"role": "a librarian", "author": "Jane Austen"}
        return agent.load_yaml_prompt(text, mappings, **more)

    def slots(agent: Any) -> Any:
        names = ("system", "info", "input", "instruct")
        return {each: agent.request_prompt.get(each) for each in names}

    def types(agent: Any) -> Any:
        return agent.request_prompt.get("output")

    def again(agent: Any) -> Any:
        copy = desk.agent().load_yaml_prompt(agent.get_yaml_prompt())
        other = desk.agent().load_json_prompt(agent.get_json_prompt())
        return [slots(copy), slots(other), types(copy) == types(agent) == types(other)]

    yield "a prompt in YAML", lambda: slots(yaml())
    yield "what of it is the agent's", lambda: yaml().agent_prompt.get("info")
    yield "its answer", lambda: yaml().start()
    yield "a prompt in JSON", lambda: slots(desk.agent().load_json_prompt(JSON))
    yield "types in a document", lambda: types(yaml())
    yield (
        "a part of a document",
        lambda: slots(yaml(text="a:\n  b:\n    input: hi\n", prompt_key_path="a.b")),
    )
    yield "a part that is not there", lambda: yaml(text="a: {}\n", prompt_key_path="a.b")
    yield "text in place of slots", lambda: slots(yaml(text=".agent: be kind\n.request: hello\n"))
    yield "a document that is a list", lambda: yaml(text="- a\n- b\n")
    yield "a broken document", lambda: yaml(text="a: [b\n")
    yield "an unknown alias", lambda: slots(yaml(text=".alias:\n  none_such: {}\ninput: hi\n"))
    yield "a malformed alias", lambda: yaml(text=".alias: [a]\n")
    yield "written and read again", lambda: again(yaml())
    yield "written without a name", lambda: yaml().request_prompt.to_yaml_prompt()


# Sessions


def sessions(desk: Desk) -> Steps:
    """Conversations that go on."""

    def chatting(*answers: Any) -> Any:
        kind = type("Chatting", (desk.chatting, desk.agently.AgentType), {})
        main = desk.main(kind)
        main.set_settings(
            "OpenAICompatible", {"base_url": desk.server.address, "model": "scripted"}
        )
        desk.server.say(*answers)
        return main.create_agent()

    def history(agent: Any) -> Any:
        found = agent.agent_prompt.get("chat_history") or []
        return [_turn(each) for each in found]

    def talk() -> Any:
        agent = chatting("Jane Austen.", "In 1815.", "Hello.")
        one = agent.activate_chat_session("one")
        agent.input("Who wrote Emma?").start()
        agent.input("When?").start()
        agent.activate_chat_session("two")
        other = history(agent)
        agent.activate_chat_session("one")
        return [one, desk.sent, other, history(agent)]

    def paths(*given: Any) -> Any:
        agent = chatting(EMMA)
        agent.set_record_input_paths(*given).set_record_output_paths("title")
        agent.set_settings("record_input_mode", "first")
        agent.set_settings("record_output_mode", "first")
        agent.activate_chat_session("three")
        agent.input({"core": "Who?"}).info("shelf A").output(BOOK).start()
        return history(agent)

    def stopped() -> Any:
        agent = chatting("Jane Austen.", "x")
        agent.activate_chat_session("four")
        agent.input("Who wrote Emma?").start()
        agent.stop_chat_session()
        agent.input("Again?").start()
        return [desk.sent, history(agent)]

    def session() -> Any:
        agent = desk.agent("Jane Austen.", "In 1815.", "x", "In 1815.")
        agent.activate_session(session_id="five")
        agent.input("Who wrote Emma?").start()
        agent.input("When?").start()
        agent.deactivate_session()
        agent.input("When?").start()
        agent.activate_session(session_id="five")
        agent.input("When?").start()
        return [each["roles"] for each in desk.sent]

    def by_hand() -> Any:
        agent = desk.agent("x", "x")
        agent.add_chat_history({"role": "user", "content": "Hi"})
        agent.add_chat_history([{"role": "assistant", "content": "Hello"}])
        agent.input("Who wrote Emma?").start()
        agent.reset_chat_history().input("Who wrote Emma?").start()
        return desk.sent

    yield "a conversation", talk
    yield "chosen parts of the prompt", partial(paths, ("input", "core"))
    yield "a chosen slot", partial(paths, "info")
    yield "a session that was stopped", stopped
    yield "a session of the last versions", session
    yield "a history by hand", by_hand


def _turn(message: Any) -> Any:
    if isinstance(message, dict):
        return message["role"], message["content"]
    return message.role, message.content


if __name__ == "__main__":
    main(steps, load, sys.argv)
