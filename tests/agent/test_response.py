"""003.2, 003.3 and 003.4: one request, many views, and what an answer should be."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.agent.conftest import MakeAgent
from wieldy.agent import Agent
from wieldy.agent.output.output_form import OutputForm
from wieldy.core.errors import ToolNotFound
from wieldy.models.model_errors import ContextTooLong
from wieldy.testing import Answer, ScriptedModel
from wieldy.wire.structured import StructuredError


class Book(BaseModel):
    title: str = Field(description="the whole title")
    year: int


STRUCTURE = {"title": (str, "the whole title"), "authors": [{"name": (str, "first and last")}]}
EMMA = {"title": "Emma", "authors": [{"name": "Jane Austen"}]}


def test_003_2_start_gives_parsed_data(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(EMMA)

    assert agent.input("Which book?").output(STRUCTURE).start() == EMMA


async def test_003_2_async_start_gives_parsed_data(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(EMMA)

    assert await agent.input("Which book?").output(STRUCTURE).async_start() == EMMA


async def test_003_2_one_model_request_however_many_views_are_read(make_agent: MakeAgent) -> None:
    agent, model = make_agent(EMMA)
    response = agent.input("Which book?").output(STRUCTURE).get_response()

    views = await asyncio.gather(
        response.async_get_text(),
        response.async_get_data(),
        response.async_get_data_object(),
        response.async_get_meta(),
    )
    deltas = [each async for each in response.get_async_generator(type="delta")]
    original = [each async for each in response.get_async_generator(type="original")]
    instant = [each async for each in response.get_async_generator(type="instant")]
    everything = [each async for each in response.get_async_generator(type="all")]

    text, data, thing, meta = views
    assert text == "".join(deltas) == json.dumps(EMMA)
    assert data == EMMA
    assert thing.model_dump() == EMMA
    assert meta["model"] == "scripted:model"
    assert len(original) >= len(deltas)
    assert instant[-1].value == EMMA
    assert str(everything[-2][0]) == "done"
    assert str(everything[-1][0]) == "meta"
    assert len(model.requests) == 1


def test_003_2_blocking_views_are_of_one_request_too(make_agent: MakeAgent) -> None:
    agent, model = make_agent(EMMA)
    response = agent.input("Which book?").output(STRUCTURE).get_response()

    assert "".join(response.get_generator()) == response.get_text()
    assert response.get_data() == EMMA
    assert response.get_data_object().model_dump() == EMMA
    assert response.get_meta()["finish_reason"] == "stop"
    assert [each.path for each in response.get_generator("instant") if each.is_complete] == [
        "title",
        "authors[0].name",
        "authors[0]",
        "authors",
        "",
    ]
    assert len(model.requests) == 1


def test_003_2_the_prompts_are_taken_at_once(make_agent: MakeAgent) -> None:
    agent, model = make_agent("ok")
    agent.info({"colour": "red"}, always=True)
    response = agent.input("first").get_response()

    agent.input("second").info({"colour": "blue"}, always=True)
    response.get_text()

    assert "red" in model.requests[0].last
    assert "first" in model.requests[0].last
    assert "second" not in model.requests[0].last


def test_003_2_all_gives_pairs_and_specific_only_the_named_ones(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(Answer("Hello", thinking="Hm."), chunks=3)
    response = agent.input("hi").get_response()

    pairs = [(str(event), data) for event, data in response.get_generator("all")]

    assert [each for each in pairs if each[0] != "original_delta"] == [
        ("reasoning_delta", "Hm."),
        ("delta", "Hel"),
        ("delta", "lo"),
        ("done", "Hello"),
        ("meta", response.get_meta()),
    ]
    specific = response.get_generator("specific", events=["done", "reasoning_delta"])
    assert list(specific) == [("reasoning_delta", "Hm."), ("done", "Hello")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "deltas"}, "type is one of"),
        ({"type": "specific"}, "events="),
        ({"type": "all", "events": ["done"]}, "events="),
    ],
)
def test_a_view_that_is_not_there_is_an_error_before_anything_is_asked(
    make_agent: MakeAgent, options: dict[str, Any], words: str
) -> None:
    agent, model = make_agent("never")

    with pytest.raises(ValueError, match=words):
        agent.input("hi").get_generator(**options)

    assert model.requests == []


def test_003_2_missing_keys_are_asked_for_again(make_agent: MakeAgent) -> None:
    agent, model = make_agent({"title": "Emma"}, "no JSON", EMMA)

    data = agent.input("Which book?").output(STRUCTURE).start(ensure_keys=["authors[*].name"])

    assert data == EMMA
    assert len(model.requests) == 3
    assert "authors[*].name" in model.requests[1].last


def test_003_2_max_retries_counts_further_requests_and_then_it_is_a_value_error(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent(*[{"title": "Emma"}] * 4)

    with pytest.raises(ValueError, match="authors"):
        agent.input("Which book?").output(STRUCTURE).start(ensure_keys=["authors"], max_retries=2)

    assert len(model.requests) == 3


def test_003_2_keys_may_be_asked_for_after_the_answer_was_read(make_agent: MakeAgent) -> None:
    agent, model = make_agent({"title": "Emma"}, EMMA)
    response = agent.input("Which book?").output(STRUCTURE).get_response()

    assert response.get_data() == {"title": "Emma"}
    assert response.get_data(ensure_keys=["authors"]) == EMMA
    assert len(model.requests) == 2


def test_003_2_a_requests_own_content_is_one_user_message_the_last(make_agent: MakeAgent) -> None:
    agent, model = make_agent(EMMA)
    agent.set_chat_history(
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    )

    agent.system("s").info("i").instruct("n").examples(["e"]).input("q").output(STRUCTURE).start()

    messages = model.requests[0].messages
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user"]
    for words in ("i", "n", "e", "q", "the whole title", "first and last"):
        assert words in messages[-1]["content"]


def test_003_2_attachments_are_parts_of_that_message(make_agent: MakeAgent) -> None:
    agent, model = make_agent("a cat")
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    agent.input("What is it?").attachment([picture]).start()

    assert model.requests[0].messages == [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    ]


def test_an_attachment_that_is_no_part_is_an_error(make_agent: MakeAgent) -> None:
    agent, model = make_agent("never")

    with pytest.raises(ValueError, match="attachment is a list of parts"):
        agent.input("What is it?").attachment([{"url": "x"}]).start()

    assert model.requests == []


def test_003_2_options_reach_the_provider(make_agent: MakeAgent) -> None:
    agent, model = make_agent("ok")

    agent.options({"temperature": 0}, always=True).options({"seed": 1}).input("hi").start()

    assert model.requests[0].body["temperature"] == 0
    assert model.requests[0].body["seed"] == 1


def test_003_2_get_data_object_gives_a_pydantic_object(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(EMMA, {"title": "Emma", "year": 1815}, "[1, 2]")

    made: Any = agent.input("q").output(STRUCTURE).get_data_object()
    book = agent.input("q").output(Book).get_data_object()
    numbers: Any = agent.input("q").output([(int, "a number")]).get_data_object()

    assert made.authors[0].name == "Jane Austen"
    assert book == Book(title="Emma", year=1815)
    assert numbers.root == [1, 2]


def test_003_2_text_is_no_object(make_agent: MakeAgent) -> None:
    agent, model = make_agent("never")

    with pytest.raises(TypeError, match="output"):
        agent.input("q").get_data_object()

    assert model.requests == []


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (STRUCTURE, ["the whole title", "first and last", "<str>"]),
        (Book, ["the whole title", "<int>"]),
        ([Book], ["the whole title", "..."]),
        ({"books": (list[Book], "all of them")}, ["all of them", "the whole title"]),
        ({"type": "object", "properties": {"n": {"description": "how many"}}}, ["how many"]),
        ((int, "how many"), ["how many", "value"]),
        ("a limerick", ["a limerick"]),
        ({"type": ("string", "which kind")}, ["which kind"]),
    ],
)
def test_003_3_the_output_with_its_descriptions_is_in_the_messages(
    make_agent: MakeAgent, output: Any, told: list[str]
) -> None:
    agent, _ = make_agent()

    shown = str(agent.input("q").output(output).explain())

    for words in told:
        assert words in shown


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "Emma", "authors": [{"name": "Jane Austen"}]}',
        'Here you are:\n```json\n{"title": "Emma", "authors": [{"name": "Jane Austen"}]}\n```\nBye',
        "Sure! {'title': 'Emma', 'authors': [{'name': 'Jane Austen'},],}",
        '{"title": "Emma", "authors": [{"name": "Jane Austen"}]',
    ],
)
def test_003_3_json_is_found_in_prose_and_fences_and_repaired(
    make_agent: MakeAgent, text: str
) -> None:
    agent, _ = make_agent(text)

    assert agent.input("q").output(STRUCTURE).start() == EMMA


def test_003_3_str_means_text(make_agent: MakeAgent) -> None:
    agent, _ = make_agent('{"a": 1}')

    assert agent.input("q").output(str).start() == '{"a": 1}'


def test_003_3_a_pydantic_model_validates(make_agent: MakeAgent) -> None:
    agent, _ = make_agent({"title": "Emma", "year": "1815"}, {"title": "Emma", "year": "long ago"})

    assert agent.input("q").output(Book).start() == {"title": "Emma", "year": 1815}
    with pytest.raises(StructuredError, match="year"):
        agent.input("q").output(Book).start()


class Person(BaseModel):
    name: str
    children: "list[Person]" = []
    partner: "Person | None" = None
    known: "dict[str, Person]" = {}


@pytest.mark.parametrize(
    ("output", "path"),
    [
        (Person, []),
        ({"person": (Person, "who it is")}, ["person"]),
        ({"people": [Person]}, ["people", 0]),
        ({"people": (list[Person], "all of them")}, ["people", 0]),
        ({"person": (Person | None, "who it is")}, ["person"]),
    ],
)
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
async def test_a_model_may_have_fields_of_its_own_type(
    make_agent: MakeAgent, tmp_path: Path, output: Any, path: list[Any], kept: bool
) -> None:
    ann = {"name": "Ann", "children": [{"name": "Bob"}]}
    answer: Any = ann
    for step in reversed(path):
        answer = {step: answer} if isinstance(step, str) else [answer]
    store = f"sqlite:///{tmp_path}/store.db" if kept else None
    agent, model = make_agent(answer, name="teller", store=store)

    async with agent:
        found: Any = await agent.input("q").output(output).async_start()
        assert "Person" in model.requests[0].last
        assert "Person" in agent.output(output).info(Person).request_prompt.to_yaml_prompt()

    for step in path:
        found = found[step]
    assert (found["name"], found["children"][0]["name"]) == ("Ann", "Bob")


@pytest.mark.parametrize(
    ("output", "text", "data"),
    [
        (int, '{"value": 42}', 42),
        (int, '{"value": 42, "reply": "there"}', 42),
        (int, "42", 42),
        (int, '```json\n{"value": "42"}\n```', 42),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (bool, "true", True),
    ],
)
def test_003_10_plain_types_are_asked_for_as_a_value_and_unwrapped(
    output: Any, text: str, data: Any
) -> None:
    assert OutputForm(output).read_data(text) == data


@pytest.mark.parametrize("size", [1, 2, 3, 7, None])
def test_003_4_the_completions_are_the_same_for_any_chunking(size: int | None) -> None:
    agent = Agent(ScriptedModel([EMMA], chunks=size))
    events = list(agent.input("q").output(STRUCTURE).get_generator("instant"))

    assert [(e.path, e.wildcard_path, e.indexes, e.value) for e in events if e.is_complete] == [
        ("title", "title", (), "Emma"),
        ("authors[0].name", "authors[*].name", (0,), "Jane Austen"),
        ("authors[0]", "authors[*]", (0,), {"name": "Jane Austen"}),
        ("authors", "authors", (), [{"name": "Jane Austen"}]),
        ("", "", (), EMMA),
    ]
    named = [each.delta for each in events if each.path == "authors[0].name"]
    assert "".join(named) == "Jane Austen"
    assert events[-1].full_data == EMMA


def test_003_4_slash_paths_by_setting(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(EMMA)
    agent.set_settings("response.streaming_parse_path_style", "slash")

    events = agent.input("q").output(STRUCTURE).get_generator("instant")

    named = [(each.path, each.wildcard_path) for each in events if each.is_complete]
    assert ("/authors/[0]/name", "/authors/[*]/name") in named


def test_explain_shows_what_would_be_sent_and_then_what_was(make_agent: MakeAgent) -> None:
    agent, model = make_agent("hello")

    before = agent.input("hi").explain()
    agent.start()
    after = agent.explain()

    assert not before.sent
    assert after.sent
    assert before.requests == after.requests == [model.requests[0].body]
    assert "estimate" in str(before)
    assert "would be sent" in str(before)


def test_messages_that_outgrow_the_context_are_an_error_before_anything_is_sent(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent("never", context_window=100)

    with pytest.raises(ContextTooLong, match="more than the 100") as caught:
        agent.input("word " * 1000).start()

    assert caught.value.excess is not None
    assert caught.value.excess > 0
    assert model.requests == []


def test_a_picture_is_not_counted_by_its_letters(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 900_000}}

    assert agent.input("What is it?").attachment([picture]).explain().tokens[0] < 2000


@pytest.mark.parametrize(
    "key", ["/authors/[0]/name", "/authors/0/name", "authors/0/name", "/authors/*/name"]
)
def test_003_4_a_key_in_slash_style_is_found_with_and_without_brackets(
    make_agent: MakeAgent, key: str
) -> None:
    agent, _ = make_agent(EMMA)
    agent.set_settings("response.streaming_parse_path_style", "slash")

    found = list(agent.input("q").output(STRUCTURE).wait_keys([key]))

    assert found == [("/authors/[0]/name", "Jane Austen")]


def test_003_5_an_unknown_name_is_a_value_error_too(make_agent: MakeAgent) -> None:
    agent, _ = make_agent("hello")
    for kind in (ValueError, ToolNotFound):
        with pytest.raises(kind, match="nothing"):
            agent.use_tools("nothing")
