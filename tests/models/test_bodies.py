"""Requests as each provider wants them: roles, parts, tools, options and schemas."""

import base64
from typing import Any

import pytest

from tests.models.voices import VOICES, Voice
from wieldy import Call, ModelRefused, Outcome, Status, Toolbox
from wieldy.models import Answers, ModelRequest, Reply, Said, Turn, find_model

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
NOTE = base64.b64encode("Grüße".encode()).decode()
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
EMPTY = {"type": "object"}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}}}


def body(name: str, turns: list[Turn], **facts: Any) -> dict[str, Any]:
    settings = {key: facts.pop(key) for key in ("base_url", "options") if key in facts}
    request_options = facts.pop("request_options", None)
    return find_model(f"{name}:m", **settings).render(
        ModelRequest(turns, options=request_options, **facts)
    )


TALK: list[Turn] = [
    Said("system", "Be brief."),
    Said("developer", "Use metres."),
    Said("user", "Hi"),
    Said("assistant", "Hello."),
    Said("user", ""),
]


def test_roles_are_those_of_each_provider() -> None:
    chat = body("openai", TALK)["messages"]
    assert [each["role"] for each in chat] == ["system", "developer", "user", "assistant", "user"]
    other = body("openai", TALK, base_url="http://localhost:1/v1")["messages"]
    assert [each["role"] for each in other][:2] == ["system", "system"]
    items = body("openai-responses", TALK)["input"]
    assert items[1] == {"role": "developer", "content": "Use metres."}
    anthropic = body("anthropic", TALK)
    assert anthropic["system"] == "Be brief.\n\nUse metres."
    assert anthropic["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
    ]
    gemini = body("gemini", TALK)
    assert gemini["systemInstruction"] == {
        "parts": [{"text": "Be brief."}, {"text": "Use metres."}]
    }
    assert gemini["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Hello."}]},
    ]


TEXT = {"type": "text", "text": "Look"}
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
LINK = {"type": "image_url", "image_url": {"url": "https://host/a.jpg?x=1", "detail": "low"}}
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:;base64,{PDF}"}}
PLAIN = {"type": "file", "file": {"filename": "a.txt", "file_data": NOTE}}
KEPT = {"type": "file", "file": {"file_id": "file-1"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}}
QUOTED = {"type": "image_url", "image_url": "data:image/svg+xml,%3Csvg%2F%3E"}
SVG = base64.b64encode(b"<svg/>").decode()


@pytest.mark.parametrize(
    ("part", "responses", "anthropic", "gemini"),
    [
        (
            TEXT,
            {"type": "input_text", "text": "Look"},
            {"type": "text", "text": "Look"},
            {"text": "Look"},
        ),
        (
            IMAGE,
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
            {"inlineData": {"mimeType": "image/png", "data": PNG}},
        ),
        (
            LINK,
            {"type": "input_image", "image_url": "https://host/a.jpg?x=1", "detail": "low"},
            {"type": "image", "source": {"type": "url", "url": "https://host/a.jpg?x=1"}},
            {"fileData": {"fileUri": "https://host/a.jpg?x=1", "mimeType": "image/jpeg"}},
        ),
        (
            FILE,
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "a.pdf",
            },
            {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
        ),
        (
            PLAIN,
            {
                "type": "input_file",
                "filename": "a.txt",
                "file_data": f"data:text/plain;base64,{NOTE}",
            },
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
                "title": "a.txt",
            },
            {"inlineData": {"mimeType": "text/plain", "data": NOTE}},
        ),
        (
            KEPT,
            {"type": "input_file", "file_id": "file-1"},
            {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
            {"fileData": {"fileUri": "file-1"}},
        ),
        (
            QUOTED,
            {"type": "input_image", "image_url": f"data:image/svg+xml;base64,{SVG}"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/svg+xml", "data": SVG},
            },
            {"inlineData": {"mimeType": "image/svg+xml", "data": SVG}},
        ),
        ({"type": "own", "x": 1}, {"type": "own", "x": 1}, {"type": "own", "x": 1}, None),
        (
            {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
            None,
            {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
            None,
        ),
    ],
)
def test_parts_are_translated_for_each_provider(
    part: dict[str, Any],
    responses: dict[str, Any] | None,
    anthropic: dict[str, Any],
    gemini: dict[str, Any] | None,
) -> None:
    turns: list[Turn] = [Said("user", [part])]
    assert body("openai", turns)["messages"][0]["content"] == [part]
    if responses is not None:
        assert body("openai-responses", turns)["input"][0]["content"] == [responses]
    assert body("anthropic", turns)["messages"][0]["content"] == [anthropic]
    if gemini is not None:
        assert body("gemini", turns)["contents"][0]["parts"] == [gemini]


def test_sound_goes_where_it_is_taken_and_is_refused_where_not() -> None:
    turns: list[Turn] = [Said("user", [SOUND])]
    inline = {"inlineData": {"mimeType": "audio/mpeg", "data": "UklGRg=="}}
    assert body("gemini", turns)["contents"][0]["parts"] == [inline]
    with pytest.raises(ModelRefused, match="take no sound"):
        body("anthropic", turns)


@pytest.mark.parametrize("url", ["", "not base64!", "data:image/png;base64,%%%"])
@pytest.mark.parametrize("name", ["openai-responses", "anthropic", "gemini"])
def test_a_picture_that_is_none_is_refused_before_anything_is_sent(name: str, url: str) -> None:
    with pytest.raises(ModelRefused, match="image"):
        body(name, [Said("user", [{"type": "image_url", "image_url": {"url": url}}])])


def test_options_have_the_names_of_each_provider() -> None:
    turns: list[Turn] = [Said("user", "Hi")]
    options = {"temperature": 0, "max_tokens": 9, "stop": "END", "top_p": 0.5}

    chat = body("openai", turns, request_options=options)
    assert (chat["temperature"], chat["max_completion_tokens"], chat["stop"]) == (0, 9, "END")
    other = body("openai", turns, base_url="http://localhost:1", request_options=options)
    assert other["max_tokens"] == 9 and "max_completion_tokens" not in other
    assert body("openai-responses", turns, request_options=options)["max_output_tokens"] == 9
    anthropic = body("anthropic", turns, request_options=options)
    assert (anthropic["max_tokens"], anthropic["stop_sequences"]) == (9, ["END"])
    assert body("gemini", turns, request_options=options)["generationConfig"] == {
        "temperature": 0,
        "maxOutputTokens": 9,
        "stopSequences": ["END"],
        "topP": 0.5,
    }


def test_options_of_the_request_go_before_those_of_the_model_and_none_takes_one_out() -> None:
    given = {"temperature": 1, "seed": 3, "stream_options": None}
    sent = body(
        "openai", [Said("user", "Hi")], options=given, request_options={"temperature": 0, "x": 2}
    )
    assert (sent["temperature"], sent["seed"], sent["x"]) == (0, 3, 2)
    assert "stream_options" not in sent and sent["stream"] is True


def test_an_answer_is_always_streamed() -> None:
    assert body("openai", TALK, request_options={"stream": False})["stream"] is True


def test_anthropic_has_a_limit_in_every_request() -> None:
    assert body("anthropic", TALK)["max_tokens"] == 8192


def test_fields_of_gemini_s_body_are_told_from_its_generation_config() -> None:
    options = {
        "thinking_config": {"thinkingBudget": 0},
        "safety_settings": [],
        "generation_config": {"topK": 3},
        "tool_config": {"functionCallingConfig": {"mode": "NONE"}},
    }
    sent = body("gemini", TALK, request_options=options)
    assert sent["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}, "topK": 3}
    assert sent["safetySettings"] == []
    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_tools_of_the_provider_s_own_come_after_ours(voice: Voice, box: Toolbox) -> None:
    own = {"type": "web_search"}
    sent = body(voice.name, TALK, tools=box, request_options={"tools": [own]})["tools"]
    assert sent[-1] == own and len(sent) == 2
    assert "weather" in str(sent[0])


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_without_tools_none_are_named(voice: Voice) -> None:
    assert "tools" not in body(voice.name, TALK, tools=Toolbox())


def test_a_schema_of_the_answer_is_sent_where_the_provider_takes_one(box: Toolbox) -> None:
    turns: list[Turn] = [Said("user", "Hi")]
    closed = {**SCHEMA, "additionalProperties": False}
    strict = {"name": "answer", "schema": closed, "strict": True}
    chat = body("openai", turns, output_schema=SCHEMA)
    assert chat["response_format"] == {"type": "json_schema", "json_schema": strict}
    responses = body("openai-responses", turns, output_schema=SCHEMA)
    assert responses["text"] == {"format": {"type": "json_schema", **strict}}
    anthropic = body("anthropic", turns, output_schema=SCHEMA)
    wanted = {"format": {"type": "json_schema", "schema": closed}}
    assert anthropic["output_config"] == wanted
    gemini = body("gemini", turns, output_schema=SCHEMA)
    assert gemini["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }


def test_a_schema_that_strictness_would_change_is_only_a_hint() -> None:
    chat = body("openai", [Said("user", "Hi")], output_schema=OPTIONAL)
    assert chat["response_format"]["json_schema"]["strict"] is False
    assert chat["response_format"]["json_schema"]["schema"] == OPTIONAL


@pytest.mark.parametrize("voice", VOICES, ids=str)
@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"anyOf": [SCHEMA]}])
def test_a_schema_of_anything_but_an_object_is_left_out(
    voice: Voice, schema: dict[str, Any]
) -> None:
    turns: list[Turn] = [Said("user", "Hi")]
    assert body(voice.name, turns, output_schema=schema) == body(voice.name, turns)


def test_other_servers_are_not_sent_what_they_may_not_know() -> None:
    sent = body("openai", TALK, base_url="http://localhost:1/v1", output_schema=SCHEMA)
    assert "response_format" not in sent


FOREIGN = Reply("elsewhere", None, "Wait.", [Call("a b", {"x": 1}, provider_id="c1")])


def test_what_another_provider_s_model_said_is_translated() -> None:
    answer = Outcome(FOREIGN.calls[0], Status.OK, "fine")
    turns: list[Turn] = [Said("user", "Go"), FOREIGN, Answers([answer], FOREIGN.calls)]
    _, said, call, output = body("openai-responses", turns)["input"]
    assert said == {"role": "assistant", "content": "Wait."}
    assert (call["call_id"], call["arguments"], output["call_id"]) == ("c1", '{"x": 1}', "c1")
    _, message, result = body("anthropic", turns)["messages"]
    assert message["content"][0] == {"type": "text", "text": "Wait."}
    assert (message["content"][1]["id"], message["content"][1]["input"]) == ("c1", {"x": 1})
    assert result["content"][0]["tool_use_id"] == "c1"
    _, content, response = body("gemini", turns)["contents"]
    assert content["parts"][0] == {"text": "Wait."}
    assert content["parts"][1]["functionCall"]["args"] == {"x": 1}
    assert response["parts"][0]["functionResponse"]["id"] == "c1"


def test_anthropic_is_told_of_tools_that_were_called_and_may_not_be_called_any_more() -> None:
    answer = Outcome(FOREIGN.calls[0], Status.OK, "fine")
    turns: list[Turn] = [Said("user", "Go"), FOREIGN, Answers([answer], FOREIGN.calls)]

    sent = body("anthropic", turns, request_options={"tool_choice": {"type": "any"}})

    [tool] = sent["tools"]
    assert tool == {"name": sent["messages"][1]["content"][1]["name"], "input_schema": EMPTY}
    assert sent["tool_choice"] == {"type": "none"}
    assert "tools" not in body("anthropic", TALK)


@pytest.mark.parametrize("name", ["openai", "openai-responses"])
def test_a_request_without_tools_has_no_options_about_tools(name: str) -> None:
    options = {"tool_choice": "required", "parallel_tool_calls": False}

    sent = body(name, TALK, request_options=options)

    assert sent.keys() == body(name, TALK).keys()


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_a_reply_that_says_nothing_does_not_spoil_the_conversation(voice: Voice) -> None:
    turns: list[Turn] = [Said("user", "Go"), Reply("elsewhere", None), Said("user", "On")]
    sent = str(body(voice.name, turns))
    assert "'parts': []" not in sent and "'content': []" not in sent
