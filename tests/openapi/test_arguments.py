"""What an operation takes: parameters and body as one flat schema, and where each goes."""

import base64
import json
from typing import Any

import pytest

from tests.openapi.api import Api, document, operation
from wieldy import InvalidArguments, Toolbox


def body(schema: Any, media: str = "application/json", **facts: Any) -> dict[str, Any]:
    return {"required": True, "content": {media: {"schema": schema}}, **facts}


def taking(*parameters: dict[str, Any], path: str = "/x", **facts: Any) -> dict[str, Any]:
    return {path: {"post": operation(parameters=list(parameters), **facts)}}


async def test_path_query_header_and_body_are_merged_and_sent_where_they_belong(
    box: Toolbox, api: Api
) -> None:
    paths = taking(
        {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
        {"name": "dry", "in": "query", "schema": {"type": "boolean"}},
        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}, "description": "why"},
        path="/pets/{id}",
        requestBody=body(
            {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            }
        ),
    )
    (tool,) = await box.add_openapi(document(paths), base_url=api.url)

    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "dry": {"type": "boolean"},
            "X-Trace": {"type": "string", "description": "why"},
            "name": {"type": "string"},
            "age": {"type": "integer"},
        },
        "additionalProperties": False,
        "required": ["id", "name"],
    }
    sent = {"id": 7, "dry": True, "X-Trace": "t", "name": "Rex", "age": 3}
    told = (await box.call("it", sent)).unwrap()
    assert (told["path"], told["query"]) == ("/pets/7", "dry=true")
    assert told["headers"]["x-trace"] == "t"
    assert told["headers"]["content-type"] == "application/json"
    assert json.loads(told["body"]) == {"name": "Rex", "age": 3}


async def test_one_name_in_two_places_is_told_apart_by_its_place(box: Toolbox, api: Api) -> None:
    paths = taking(
        {"name": "id", "in": "path", "required": True},
        {"name": "id", "in": "query"},
        {"name": "body", "in": "query"},
        path="/x/{id}",
        requestBody=body({"type": "object", "properties": {"id_path": {}, "other": {}}}),
    )
    (tool,) = await box.add_openapi(document(paths), base_url=api.url)

    assert list(tool.input_schema["properties"]) == ["id_path", "id_query", "body_query", "body"]
    sent = {"id_path": "p", "id_query": "q", "body_query": "b", "body": {"id_path": 1}}
    told = (await box.call("it", sent)).unwrap()
    assert (told["path"], told["query"]) == ("/x/p", "id=q&body=b")
    assert json.loads(told["body"]) == {"id_path": 1}


async def test_names_that_providers_refuse_are_made_legal_and_sent_as_they_were(
    box: Toolbox, api: Api
) -> None:
    paths = taking(
        {"name": "filter[name]", "in": "query"},
        {"name": "$top", "in": "query"},
        {"name": "class", "in": "query"},
        {"name": "self", "in": "query"},
        {"name": "endpoint", "in": "query"},
        requestBody=body({"type": "object", "properties": {"@type": {}, "import": {}}}),
    )
    (tool,) = await box.add_openapi(document(paths), base_url=api.url)

    names = ["filter_name", "top", "class", "self", "endpoint", "type", "import"]
    assert list(tool.input_schema["properties"]) == names
    told = (await box.call("it", dict.fromkeys(names, "v"))).unwrap()
    assert told["query"] == "filter[name]=v&$top=v&class=v&self=v&endpoint=v"
    assert json.loads(told["body"]) == {"@type": "v", "import": "v"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
        {},
    ],
)
async def test_a_body_that_is_more_than_an_object_is_one_argument(
    box: Toolbox, schema: dict[str, Any]
) -> None:
    (tool,) = await box.add_openapi(document(taking(requestBody=body(schema))))
    assert tool.input_schema["properties"] == {"body": schema}
    assert tool.input_schema["required"] == ["body"]


async def test_an_optional_body_with_needs_of_its_own_is_one_argument(box: Toolbox) -> None:
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    given = body(schema, required=False)
    (tool,) = await box.add_openapi(document(taking(requestBody=given)))
    assert tool.input_schema["properties"] == {"body": schema}
    assert "required" not in tool.input_schema


async def test_all_of_plain_objects_is_lifted_as_one(box: Toolbox, api: Api) -> None:
    named = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/Named"},
            {"type": "object", "properties": {"age": {"$ref": "#/components/schemas/Age"}}},
        ]
    }
    components = {"schemas": {"Named": named, "Age": {"type": "integer"}, "Unused": {}}}
    paths = taking(requestBody=body(schema))
    (tool,) = await box.add_openapi(document(paths, components=components), base_url=api.url)

    assert tool.input_schema["properties"] == {
        "name": {"type": "string"},
        "age": {"$ref": "#/$defs/Age"},
    }
    assert tool.input_schema["$defs"] == {"Age": {"type": "integer"}}
    told = (await box.call("it", {"name": "Rex", "age": "4"})).unwrap()
    assert json.loads(told["body"]) == {"name": "Rex", "age": 4}


async def test_no_body_is_sent_where_none_is_given_and_none_is_needed(
    box: Toolbox, api: Api
) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    paths = {
        "/optional": {"post": operation(requestBody=body(schema, required=False))},
        "/needed": {"post": operation(operationId="needed", requestBody=body(schema))},
    }
    await box.add_openapi(document(paths), base_url=api.url)

    assert "content-type" not in (await box.call("it")).unwrap()["headers"]
    assert (await box.call("needed")).unwrap()["body"] == "{}"


async def test_wrong_arguments_never_reach_the_api(box: Toolbox, api: Api) -> None:
    paths = taking({"name": "n", "in": "query", "required": True, "schema": {"type": "integer"}})
    await box.add_openapi(document(paths), base_url=api.url)

    for wrong in ({}, {"n": "many"}, {"n": 1, "extra": 2}):
        assert isinstance((await box.call("it", wrong)).error, InvalidArguments)
    assert api.asked == []


async def test_headers_that_the_request_decides_are_not_arguments(box: Toolbox) -> None:
    names = ["Host", "Content-Length", "Authorization", "Accept", "bad name", "X-Ok"]
    paths = taking(*({"name": name, "in": "header"} for name in names))
    (tool,) = await box.add_openapi(document(paths))
    assert list(tool.input_schema["properties"]) == ["X-Ok"]


async def test_presets_fill_in_what_the_model_does_not_see(box: Toolbox, api: Api) -> None:
    paths = taking(
        {"name": "owner", "in": "path", "required": True}, {"name": "q", "in": "query"},
        path="/r/{owner}",
    )  # fmt: skip
    paths["/plain"] = {"get": operation(operationId="plain")}
    presets = {"owner": "me-myself"}
    tool, _ = await box.add_openapi(document(paths), base_url=api.url, presets=presets)

    assert list(tool.input_schema["properties"]) == ["q"]
    assert (await box.call("it", {"q": 1, "owner": "you"})).unwrap()["path"] == "/r/me-myself"
    assert (await box.call("plain")).unwrap()["query"] == ""


async def test_parameters_of_the_path_are_shared_and_overridden(box: Toolbox) -> None:
    shared = [
        {"name": "a", "in": "query", "schema": {"type": "string"}},
        {"$ref": "#/components/parameters/B"},
    ]
    own = [{"name": "a", "in": "query", "schema": {"type": "integer"}}]
    paths = {"/x": {"parameters": shared, "get": operation(parameters=own)}}
    parts = {"parameters": {"B": {"name": "b", "in": "query", "schema": {"type": "boolean"}}}}
    (tool,) = await box.add_openapi(document(paths, components=parts))
    assert tool.input_schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "boolean"}}


async def test_urlencoded_bodies_are_pairs(box: Toolbox, api: Api) -> None:
    media = "application/x-www-form-urlencoded"
    schema = {"type": "object", "properties": {"a": {}, "list": {}, "deep": {}, "flat": {}}}
    given = body(schema, media)
    given["content"][media]["encoding"] = {
        "deep": {"style": "deepObject"},
        "flat": {"style": "spaceDelimited", "explode": False},
    }
    await box.add_openapi(document(taking(requestBody=given)), base_url=api.url)

    sent = {"a": "x&y=z", "list": [1, 2], "deep": {"k": "v"}, "flat": ["p", "q"]}
    told = (await box.call("it", sent)).unwrap()
    assert told["headers"]["content-type"] == media
    assert told["body"] == "a=x%26y%3Dz&list=1&list=2&deep[k]=v&flat=p%20q"


async def test_multipart_bodies_have_files_from_text_and_from_data_addresses(
    box: Toolbox, api: Api
) -> None:
    file = {"type": "string", "format": "binary"}
    schema = {
        "type": "object",
        "properties": {"note": {"type": "string"}, "files": {"type": "array", "items": file},
                       "meta": {"type": "object"}},
    }  # fmt: skip
    given = body(schema, "multipart/form-data")
    await box.add_openapi(document(taking(requestBody=given)), base_url=api.url)

    picture = base64.b64encode(b"\x89PNG\r\n\x00").decode()
    files = ["plain text", f"data:image/png;base64,{picture}"]
    sent = {"note": "data:,hi", "files": files, "meta": {"k": 1}}
    told = (await box.call("it", sent)).unwrap()

    content = base64.b64decode(told["bytes"])
    boundary = told["headers"]["content-type"].partition("boundary=")[2].encode()
    parts = content.split(b"--" + boundary)[1:-1]
    heads, bodies = zip(*(part.strip(b"\r\n").split(b"\r\n\r\n", 1) for part in parts), strict=True)
    assert list(bodies) == [
        b"data:,hi", b"plain text", b"\x89PNG\r\n\x00", b'{"k":1}'
    ]  # fmt: skip
    assert heads[2] == (
        b'Content-Disposition: form-data; name="files"; filename="files"\r\nContent-Type: image/png'
    )
    assert b"application/json" in heads[3]


@pytest.mark.parametrize(
    ("media", "sent", "arrives"),
    [
        ("text/plain", "hello", b"hello"),
        ("application/octet-stream", "data:;base64,AAEC", b"\x00\x01\x02"),
        ("application/octet-stream", "just text", b"just text"),
        ("application/xml", "<a/>", b"<a/>"),
        ("application/vnd.api+json", {"a": 1}, b'{"a":1}'),
    ],
)
async def test_other_bodies_are_sent_as_their_media_type_wants(
    box: Toolbox, api: Api, media: str, sent: Any, arrives: bytes
) -> None:
    await box.add_openapi(document(taking(requestBody=body({}, media))), base_url=api.url)

    told = (await box.call("it", {"body": sent})).unwrap()

    assert base64.b64decode(told["bytes"]) == arrives
    assert told["headers"]["content-type"] == media


async def test_a_path_parameter_that_nobody_listed_is_asked_for_and_a_stray_one_not(
    box: Toolbox, api: Api
) -> None:
    paths = taking({"name": "stray", "in": "path", "required": True}, path="/x/{id}/y")
    (tool,) = await box.add_openapi(document(paths), base_url=api.url)

    assert tool.input_schema["properties"] == {"id": {"type": "string"}}
    assert tool.input_schema["required"] == ["id"]
    assert (await box.call("it", {"id": "a/b"})).unwrap()["path"] == "/x/a%2Fb/y"
