"""Programs for Agently's agents, with a model on this machine: requests, answers, settings.

python agently_agent_program.py original    # where agently is installed
python agently_agent_program.py wieldy
"""

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from agently_desk import BOOK, BOOKS, EMMA, SHELF, Desk, load, run_groups
from pydantic import BaseModel
from report import Side, Steps, main


class Book(BaseModel):
    title: str
    year: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def steps(side: Side) -> Steps:
    """What is done, and what comes of it."""
    return run_groups(side, requests, answers, streams, settings)


# Requests


def requests(desk: Desk) -> Steps:
    """What is sent."""

    def sent(write: Callable[[Any], Any]) -> Any:
        write(desk.agent(EMMA, EMMA)).start()
        return desk.sent

    def slots(agent: Any) -> Any:
        agent.input("Who wrote Emma?").instruct("be brief").info({"where": "shelf A"})
        return agent.examples(["like this"]).output(BOOK)

    def history(agent: Any) -> Any:
        said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        return agent.set_chat_history(said).input("Who wrote Emma?")

    def twice(agent: Any) -> Any:
        agent.instruct("be brief", always=True).input("Who wrote Emma?").start()
        return agent.input("Who wrote Ulysses?")

    def filled(agent: Any) -> Any:
        return agent.input("Who wrote ${title}?", {"title": "Emma"})

    written = {
        "a question": lambda agent: agent.input("Who wrote Emma?"),
        "all slots": slots,
        "a system prompt": lambda agent: agent.system("be brief").input("Who wrote Emma?"),
        "a role": lambda agent: agent.role("a librarian").input("Who wrote Emma?"),
        "a history": history,
        "what always holds": twice,
        "a placeholder": filled,
        "instructions alone": lambda agent: agent.instruct("be brief"),
        "an attachment": lambda agent: agent.attachment([{"type": "text", "text": "shelf A"}]),
    }
    for name, write in written.items():
        yield f"send {name}", partial(sent, write)
    yield "send nothing at all", lambda: desk.agent("x").start()
    yield "send options", partial(options, desk)
    yield "a placeholder keeps its type", partial(typed_placeholder, desk)
    yield "prompts inherit", partial(inherited, desk)
    yield "a request clears its prompt", partial(cleared, desk)


def options(desk: Desk) -> Any:
    desk.asked("x").options({"temperature": 0.5, "top_p": 1}).start()
    request = desk.server.requests[0]
    names = ("model", "temperature", "top_p", "stream", "authorization")
    return {each: request.get(each) for each in names}


def typed_placeholder(desk: Desk) -> Any:
    agent = desk.agent()
    agent.input({"${key}": "${value}", "text": "${value}!"}, {"key": "n", "value": 3})
    return agent.request_prompt.get("input")


def inherited(desk: Desk) -> Any:
    agent = desk.agent()
    agent.info({"a": 1}, always=True).info({"b": 2})
    agent.instruct(["one"], always=True).instruct(["two"])
    agent.input("old", always=True).input("new")
    prompt = agent.request_prompt
    return [
        prompt.get("info"),
        prompt.get("info", inherit=False),
        agent.agent_prompt.get("info"),
        prompt.get("instruct"),
        prompt.get("input"),
        prompt.get("nothing", "default"),
    ]


def cleared(desk: Desk) -> Any:
    agent = desk.asked("x")
    response = agent.get_response()
    before = agent.request_prompt.get("input")
    agent.input("another")
    return [before, response.get_text(), desk.sent, agent.request_prompt.get("input")]


# Answers


def answers(desk: Desk) -> Steps:
    """What is made of an answer."""

    def data(output: Any, *answers: Any, **wanted: Any) -> Any:
        return desk.asked(*answers).output(output).start(**wanted)

    def counted(*answers: Any, **wanted: Any) -> Any:
        return [data(BOOK, *answers, **wanted), len(desk.server.requests)]

    fenced = f"Here it is:\n```json\n{json.dumps(EMMA)}\n```\nGood luck."
    yield "an answer in words", lambda: desk.asked("Jane Austen.").start()
    yield "an answer as data", partial(data, BOOK, EMMA)
    yield "an answer as nested data", partial(data, SHELF, BOOKS)
    yield "an answer as a list", partial(data, [(str, "a title")], ["Emma", "Ulysses"])
    yield "data in prose", partial(data, BOOK, fenced)
    yield "data that breaks off", partial(data, BOOK, '{"title": "Emma", "year": 1815')
    yield "data with a trailing comma", partial(data, BOOK, '{"title": "Emma", "year": 1815,}')
    yield "data after thinking", partial(data, BOOK, ("Hm.", EMMA))
    yield "no data where data was asked for", partial(data, BOOK, "I don't know.")
    yield (
        "keys that come with the second answer",
        partial(counted, {"title": "Emma"}, EMMA, ensure_keys=["title", "year"]),
    )
    yield "keys in lists", partial(data, SHELF, BOOKS, ensure_keys=["books[*].title"])
    yield (
        "keys that never come",
        partial(data, BOOK, *[{"title": "Emma"}] * 3, ensure_keys=["year"], max_retries=1),
    )
    yield (
        "keys that may be missing",
        partial(
            counted,
            *[{"title": "Emma"}] * 3,
            ensure_keys=["year"],
            max_retries=1,
            raise_ensure_failure=False,
        ),
    )
    yield (
        "an answer as an object",
        lambda: vars(desk.asked(EMMA).output(BOOK).get_response().get_data_object()),
    )
    yield (
        "an answer as a model's object",
        lambda: vars(desk.asked(EMMA).output(Book).get_response().get_data_object()),
    )
    yield "words as an object", lambda: desk.asked("x").get_response().get_data_object()
    yield "an answer's text", lambda: desk.asked(EMMA).output(BOOK).get_text()
    yield "many views of one answer", partial(views, desk)
    yield "views for coroutines", lambda: asyncio.run(awaited(desk))
    yield "what is known of an answer", partial(meta, desk)
    yield "the provider's id of an answer", lambda: desk.asked("x").get_meta().get("id")
    yield "requests at the same time", lambda: asyncio.run(at_once(desk))


def views(desk: Desk) -> Any:
    response = desk.asked(EMMA).output(BOOK).get_response()
    seen = [response.get_text(), response.get_data(), list(response.get_generator(type="delta"))]
    return [*seen, response.result.get_data(), len(desk.server.requests)]


async def awaited(desk: Desk) -> Any:
    response = desk.asked(EMMA).output(BOOK).get_response()
    deltas = [each async for each in response.get_async_generator(type="delta")]
    text, data = await response.async_get_text(), await response.async_get_data()
    later = await desk.asked("Jane Austen.").async_start()
    return [deltas, text, data, later]


def meta(desk: Desk) -> Any:
    found = desk.asked("x").get_meta()
    return {each: found.get(each) for each in ("role", "finish_reason", "usage")}


async def at_once(desk: Desk) -> Any:
    agent = desk.agent("same", "same", "same")
    asked = [agent.input(f"Who wrote {each}?").async_start() for each in ("a", "b", "c")]
    given = await asyncio.gather(*asked)
    inputs = sorted(each["messages"][-1]["content"][-12:] for each in desk.server.requests)
    return [given, inputs]


# Streams


def streams(desk: Desk) -> Steps:
    """What is seen of an answer while it comes."""

    def read(type: str, **wanted: Any) -> Any:
        response = desk.asked(("Hm.", BOOKS)).output(SHELF).get_response()
        return list(response.get_generator(type=type, **wanted))

    def instant(style: str) -> Any:
        agent = desk.asked(BOOKS).output(SHELF)
        agent.set_settings("response.streaming_parse_path_style", style)
        return list(agent.get_response().get_generator(type="instant"))

    def done(style: str) -> Any:
        return [(each.path, each.value) for each in instant(style) if each.is_complete]

    def places() -> Any:
        leaves = [each for each in instant("dot") if each.is_complete and "]." in each.path]
        return [(each.path, each.wildcard_path, each.indexes) for each in leaves]

    def joined() -> Any:
        text: dict[str, str] = {}
        for each in instant("dot"):
            if isinstance(each.value, str) and each.delta:
                text[each.path] = text.get(each.path, "") + each.delta
        return text

    yield "pieces of text", partial(read, "delta")
    yield (
        "pieces without asking for them by name",
        lambda: list(desk.asked("Hello").get_generator()),
    )
    yield "chosen events", partial(read, "specific", specific=["delta", "done"])
    yield "one chosen event", partial(read, "specific", specific="done")
    yield "thinking", partial(read, "specific", specific=["reasoning_delta"])
    yield "names of all events", lambda: _in_order(str(event) for event, _ in read("all"))
    yield (
        "the provider's own events",
        lambda: [
            json.loads(each)["choices"][0]["delta"].get("content") for each in read("original")
        ],
    )
    yield "values as they are complete", partial(done, "dot")
    yield "values with paths that have slashes", partial(done, "slash")
    yield "where values are", places
    yield "pieces of values", joined
    yield "all that is known at the end", lambda: instant("dot")[-1].full_data
    yield (
        "values of an answer in words",
        lambda: list(desk.asked("words").get_generator(type="instant")),
    )


def _in_order(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))


# Settings


def settings(desk: Desk) -> Steps:
    """Where settings come from, and what they do."""
    path = "plugins.ModelRequester.OpenAICompatible"
    agently = desk.agently

    def loaded(kind: str, text: str, **more: Any) -> Any:
        agent = desk.agent()
        agent.load_settings(kind, text, **more)
        return [agent.settings.get("shop.name"), agent.settings["shop.size"]]

    def from_environment() -> Any:
        os.environ["SHOP_NAME"] = "corner"
        return loaded("yaml", "shop: {name: '${ENV.SHOP_NAME}', size: 3}", auto_load_env=True)

    def inherited() -> Any:
        agent = desk.agent()
        agent.set_settings("OpenAI", {"model": "other"})
        found = agent.settings.get(path)
        return [
            found["model"],
            found["base_url"] == desk.server.address,
            agently.settings.get(path)["model"],
        ]

    def used(**given: Any) -> Any:
        agent = desk.agent("x")
        agent.set_settings("OpenAICompatible", given)
        agent.input("Who wrote Emma?").start()
        request = desk.server.requests[0]
        names = ("model", "temperature", "top_p", "user", "authorization")
        return {each: request.get(each) for each in names if each in request}

    def requested(**options: Any) -> Any:
        agent = desk.agent(EMMA).info("shelf A", always=True)
        if options.pop("tools", False):
            agent.use_tools(add)
        request = agent.create_request(**options)
        data = request.input("Who wrote Emma?").output(BOOK).start()
        return [data, desk.sent, len(desk.server.questions)]

    def direct() -> Any:
        desk.server.say("Jane Austen.")
        request = agently.create_request()
        request.set_prompt("input", "Who wrote Emma?").instruct("be brief")
        return [
            "".join(request.get_generator(type="delta")),
            desk.sent,
            request.prompt.get("input"),
        ]

    def debug() -> Any:
        agent = desk.agent()
        before = agent.settings.get("runtime.show_tool_logs")
        agent.set_settings("debug", True)
        return [before, agent.settings.get("runtime.show_tool_logs")]

    def printed() -> Any:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            desk.asked("Jane Austen.").streaming_print()
        return out.getvalue()

    yield "settings are inherited", inherited
    yield "settings chain", lambda: agently.set_settings("shop.open", True) is agently
    yield "a setting by its path", lambda: agently.settings.get("shop.open")
    yield "a setting with a default", lambda: agently.settings.get("shop.none", "default")
    yield "debug is several settings", debug
    yield "settings in JSON", partial(loaded, "json", '{"shop": {"name": "a", "size": 3}}')
    yield "settings in YAML", partial(loaded, "yaml", "shop:\n  name: a\n  size: 3\n")
    yield "settings in TOML", partial(loaded, "toml", '[shop]\nname = "a"\nsize = 3\n')
    yield "settings from the environment", from_environment
    yield (
        "settings that the environment lacks",
        partial(
            loaded, "json", '{"shop": {"name": "${ENV.NONE_SUCH}", "size": 3}}', auto_load_env=True
        ),
    )
    yield (
        "settings that the environment must have",
        partial(
            loaded, "json", '{"shop": "${ENV.NONE_SUCH}"}', auto_load_env=True, raise_empty=True
        ),
    )
    yield "settings of an unknown kind", partial(loaded, "ini", "a=1")
    yield "settings that are a list", partial(loaded, "json", "[1]")
    yield "settings in a file that is not there", partial(loaded, "yaml_file", "none-such.yaml")
    yield (
        "settings of all",
        lambda: (
            agently.load_settings("json", '{"shop": {"size": 4}}') is agently,
            agently.settings.get("shop.size"),
        ),
    )
    yield "options of the model", partial(used, model="m", options={"temperature": 0.1})
    yield (
        "request options win",
        partial(
            used, options={"temperature": 0.1, "top_p": 1}, request_options={"temperature": 0.2}
        ),
    )
    yield (
        "timeouts",
        partial(used, timeout={"connect": 5.0, "read": 60.0, "write": 5.0, "pool": 5.0}),
    )
    yield "a key as auth", partial(used, auth="secret")
    yield "a key in auth", partial(used, auth={"api_key": "secret", "body": {"user": "ann"}})
    yield "an address with a slash", partial(used, base_url=f"{desk.server.address}/")
    yield (
        "a full address",
        partial(
            used,
            base_url="http://127.0.0.1:9/v1",
            full_url=f"{desk.server.address}/chat/completions",
        ),
    )
    yield "a request of an agent", requested
    yield "a request of an agent with tools", partial(requested, tools=True)
    yield "a request without the agent's prompt", partial(requested, inherit_agent_prompt=False)
    yield (
        "a request without the agent's tools",
        partial(requested, tools=True, inherit_extension_handlers=False),
    )
    yield "a request without an agent", direct
    yield (
        "a temporary request",
        lambda: (
            desk.agent("x").info("shelf A", always=True).create_temp_request().input("hi").start(),
            desk.sent,
        ),
    )
    yield "an answer that is printed while it comes", printed


if __name__ == "__main__":
    main(steps, load, sys.argv)
