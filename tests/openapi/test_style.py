"""How values are written into requests, as a real server sees them."""

from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.openapi.api import Api, document, operation
from wieldy import Status, Toolbox
from wieldy.openapi.document import Node
from wieldy.openapi.operation_arguments import OperationParameter
from wieldy.openapi.style import in_cookie, in_path, in_query

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200}


def parameter(place: str, **facts: Any) -> OperationParameter:
    return OperationParameter(Node({"name": "color", "in": place, **facts}, ""))


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, "blue", "/p/blue"),
        ("simple", False, ARRAY, "/p/blue,black,brown"),
        ("simple", False, OBJECT, "/p/R,100,G,200"),
        ("simple", True, ARRAY, "/p/blue,black,brown"),
        ("simple", True, OBJECT, "/p/R=100,G=200"),
        ("label", False, "blue", "/p/.blue"),
        ("label", False, ARRAY, "/p/.blue,black,brown"),
        ("label", True, ARRAY, "/p/.blue.black.brown"),
        ("label", False, OBJECT, "/p/.R,100,G,200"),
        ("label", True, OBJECT, "/p/.R=100.G=200"),
        ("matrix", False, "blue", "/p/;color=blue"),
        ("matrix", False, ARRAY, "/p/;color=blue,black,brown"),
        ("matrix", True, ARRAY, "/p/;color=blue;color=black;color=brown"),
        ("matrix", False, OBJECT, "/p/;color=R,100,G,200"),
        ("matrix", True, OBJECT, "/p/;R=100;G=200"),
        ("simple", False, True, "/p/true"),
        ("simple", False, 5.0, "/p/5"),
        ("simple", False, "a/b?c#d", "/p/a%2Fb%3Fc%23d"),
        ("simple", False, "50% é", "/p/50%25%20%C3%A9"),
    ],
)
async def test_path_parameters_are_written_in_their_style(
    box: Toolbox, api: Api, style: str, explode: bool, value: Any, path: str
) -> None:
    given_style = {"style": style, "explode": explode, "schema": {}, "required": True}
    parameters = [{"name": "color", "in": "path", **given_style}]
    paths = {"/p/{color}": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"color": value})

    assert outcome.unwrap()["path"] == path


@pytest.mark.parametrize(
    ("facts", "value", "query"),
    [
        ({}, "blue", "color=blue"),
        ({}, ARRAY, "color=blue&color=black&color=brown"),
        ({}, OBJECT, "R=100&G=200"),
        ({"explode": False}, ARRAY, "color=blue,black,brown"),
        ({"explode": False}, OBJECT, "color=R,100,G,200"),
        ({"style": "spaceDelimited"}, ARRAY, "color=blue%20black%20brown"),
        ({"style": "pipeDelimited"}, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ({"style": "pipeDelimited"}, OBJECT, "color=R%7C100%7CG%7C200"),
        ({"style": "spaceDelimited", "explode": True}, ARRAY, "color=blue&color=black&color=brown"),
        ({"style": "deepObject", "explode": True}, OBJECT, "color[R]=100&color[G]=200"),
        ({"style": "deepObject"}, {"a": {"b": [1, 2]}}, "color[a][b]=1&color[a][b]=2"),
        ({"allowReserved": True}, "a/b:c?d", "color=a/b:c?d"),
        ({"allowReserved": True}, "a&b=c#d", "color=a%26b%3Dc%23d"),
        (
            {"content": {"application/json": {}}},
            {"R": 1},
            "color=%7B%22R%22%3A1%7D",
        ),
        ({}, "a&admin=1#x", "color=a%26admin%3D1%23x"),
        ({}, False, "color=false"),
        ({}, [], ""),
        ({}, None, ""),
        ({}, "", "color="),
    ],
)
async def test_query_parameters_are_written_in_their_style(
    box: Toolbox, api: Api, facts: dict[str, Any], value: Any, query: str
) -> None:
    parameters = [{"name": "color", "in": "query", **facts}]
    paths = {"/q": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"color": value})

    assert outcome.unwrap()["query"] == query


@pytest.mark.parametrize(
    ("explode", "value", "header"),
    [
        (False, "blue", "blue"),
        (False, ARRAY, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200"),
        (True, OBJECT, "R=100,G=200"),
    ],
)
async def test_header_parameters_are_written_in_their_style(
    box: Toolbox, api: Api, explode: bool, value: Any, header: str
) -> None:
    parameters = [{"name": "X-Color", "in": "header", "explode": explode, "schema": {}}]
    paths = {"/h": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"X-Color": value})

    assert outcome.unwrap()["headers"]["x-color"] == header


async def test_cookies_are_written_so_that_one_stays_one(box: Toolbox, api: Api) -> None:
    parameters = [{"name": "sid", "in": "cookie", "schema": {"type": "string"}}]
    paths = {"/c": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"sid": "a; admin=1\r\nX: y"})

    assert outcome.unwrap()["headers"]["cookie"] == "sid=a%3B%20admin%3D1%0D%0AX%3A%20y"


@pytest.mark.parametrize(
    "value", ["..", ".", "", "../admin", "a/../../b", "..\\x", "a/.", [], ["..", "x"]]
)
async def test_a_value_can_not_lead_to_another_path(box: Toolbox, api: Api, value: Any) -> None:
    parameters = [{"name": "id", "in": "path", "required": True, "schema": {}}]
    paths = {"/users/{id}": {"delete": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url, permission="auto")

    outcome = await box.call("it", {"id": value})

    assert outcome.status is Status.ERROR
    assert "not sent: id" in str(outcome.error)
    assert "attempts" not in outcome.metadata
    assert api.asked == []


async def test_two_values_can_not_make_a_step_up_together(box: Toolbox, api: Api) -> None:
    parameters = [
        {"name": name, "in": "path", "required": True, "style": "label"} for name in ("a", "b")
    ]
    paths = {"/x/{a}{b}/y": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"a": [""], "b": [""]})

    assert outcome.status is Status.ERROR
    assert api.asked == []


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\x00b", ["a", "b\r\n"]])
async def test_a_header_can_not_hold_another(box: Toolbox, api: Api, value: Any) -> None:
    parameters = [{"name": "X-Note", "in": "header"}]
    paths = {"/h": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"X-Note": value})

    assert outcome.status is Status.ERROR
    assert "X-Note" in str(outcome.error)
    assert api.asked == []


async def test_text_of_any_script_goes_into_a_header(box: Toolbox, api: Api) -> None:
    parameters = [{"name": "X-Note", "in": "header"}]
    paths = {"/h": {"get": operation(parameters=parameters)}}
    await box.add_openapi(document(paths), base_url=api.url)

    outcome = await box.call("it", {"X-Note": "naïve 日本"})

    arrived = outcome.unwrap()["headers"]["x-note"]
    assert arrived.encode("latin-1").decode("utf-8") == "naïve 日本"


TEXT = st.text(st.characters(codec="utf-8"), min_size=1)


@given(value=TEXT)
def test_any_text_comes_back_from_a_path_as_one_step(value: str) -> None:
    try:
        written = in_path(parameter("path"), value)
    except ValueError:
        return
    assert unquote(written) == value
    assert not set(written) & set("/?#\\ \r\n")
    assert written not in (".", "..")


@given(value=st.lists(TEXT), explode=st.booleans(), reserved=st.booleans())
def test_any_list_comes_back_from_a_query(value: list[str], explode: bool, reserved: bool) -> None:
    facts = {"explode": explode, "allowReserved": reserved}
    pairs = in_query(parameter("query", **facts), value)
    read = parse_qsl("&".join(f"{name}={text}" for name, text in pairs), keep_blank_values=True)

    assert all(name == "color" for name, _ in read)
    if explode:
        assert [text for _, text in read] == value
    else:
        assert [text for _, text in read] == ([",".join(value)] if value else [])


@given(value=st.dictionaries(TEXT, TEXT, max_size=4))
def test_no_cookie_makes_another(value: dict[str, str]) -> None:
    pairs = in_cookie(parameter("cookie", explode=False), value)
    assert len(pairs) == 1
    assert not set(pairs[0][1]) & set(";\r\n= ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(value=TEXT)
async def test_any_text_arrives_at_a_server_as_it_was(api: Api, value: str) -> None:
    parameters = [{"name": "q", "in": "query"}, {"name": "id", "in": "path", "required": True}]
    paths = {"/x/{id}/y": {"get": operation(parameters=parameters)}}
    async with Toolbox() as box:
        await box.add_openapi(document(paths), base_url=api.url)
        outcome = await box.call("it", {"q": value, "id": f"-{value}"})

    told = outcome.unwrap() if outcome.status is Status.OK else None
    if told is not None:
        assert parse_qsl(told["query"], keep_blank_values=True) == [("q", value)]
        assert unquote(told["path"]) == f"/x/-{value}/y"
        assert told["path"].count("/") == 3
