"""Who asks: where secrets go, where they never go, and that nobody sees them."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.openapi.api import Api, document, operation
from wieldy import DocumentError, Outcome, Secret, Status, Toolbox
from wieldy.openapi.document import Document
from wieldy.openapi.server_urls import ServerUrls

TOKEN = "sesame-open-42"
SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "Basic"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://x/"},
}


def secured(*names: str, security: Any = None, **facts: Any) -> dict[str, Any]:
    schemes = {name: SCHEMES[name] for name in names}
    asked = [{name: [] for name in names}] if security is None else security
    paths = {"/x": {"get": operation(security=asked, **facts)}}
    return document(paths, components={"securitySchemes": schemes})


@pytest.mark.parametrize(
    ("scheme", "header", "value"),
    [
        ("key", "x-key", TOKEN),
        ("cookie", "cookie", f"sid={TOKEN}"),
        ("bearer", "authorization", f"Bearer {TOKEN}"),
        ("basic", "authorization", "Basic " + base64.b64encode(TOKEN.encode()).decode()),
        ("oauth", "authorization", f"Bearer {TOKEN}"),
        ("oidc", "authorization", f"Bearer {TOKEN}"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
async def test_each_scheme_is_sent_in_its_form(
    box: Toolbox, api: Api, scheme: str, header: str, value: str, plain: bool
) -> None:
    auth: Any = TOKEN if plain else {scheme: Secret(TOKEN)}
    (tool,) = await box.add_openapi(secured(scheme), base_url=api.url, auth=auth)

    outcome = await box.call("it")

    assert api.last["headers"][header] == value
    assert tool.input_schema["properties"] == {}
    assert value.split()[-1].removeprefix("sid=") not in outcome.text


async def test_a_key_in_the_query_is_the_callers_and_not_the_models(box: Toolbox, api: Api) -> None:
    data = secured("query", parameters=[{"name": "api_key", "in": "query"}])
    await box.add_openapi(data, base_url=api.url, auth="a key&more")

    await box.call("it", {"api_key": "mine"})

    assert api.last["query"] == "api_key=a%20key%26more"


async def test_a_document_without_schemes_takes_a_bearer_token(box: Toolbox, api: Api) -> None:
    paths = {"/x": {"get": operation()}}
    await box.add_openapi(document(paths), base_url=api.url, auth=TOKEN)
    await box.call("it")
    assert api.last["headers"]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("given", "security", "sent"),
    [
        ({"key": TOKEN}, [{"bearer": []}, {"key": []}], {"x-key"}),
        ({"key": TOKEN, "bearer": TOKEN}, [{"bearer": [], "key": []}], {"x-key", "authorization"}),
        ({"key": TOKEN}, [{"bearer": [], "key": []}], set()),
        ({"key": TOKEN, "bearer": TOKEN}, [{"bearer": []}, {"key": []}], {"authorization"}),
        ({"key": TOKEN}, [{}, {"key": []}], {"x-key"}),
        ({"key": TOKEN}, [], set()),
        ({"bearer": TOKEN}, [{}], set()),
    ],
)
async def test_an_operation_gets_what_it_asks_for_and_no_more(
    box: Toolbox, api: Api, given: Any, security: Any, sent: set[str]
) -> None:
    data = secured("key", "bearer", security=security)
    await box.add_openapi(data, base_url=api.url, auth=given)
    await box.call("it")
    assert api.last["headers"].keys() & {"x-key", "authorization"} == sent


async def test_the_documents_own_requirement_counts_where_an_operation_has_none(
    box: Toolbox, api: Api
) -> None:
    paths = {"/x": {"get": operation()}, "/open": {"get": operation(operationId="o", security=[])}}
    schemes = {"securitySchemes": SCHEMES}
    data = document(paths, components=schemes, security=[{"key": []}])
    await box.add_openapi(data, base_url=api.url, auth={"key": TOKEN, "bearer": TOKEN})

    await box.call("it")
    assert api.last["headers"]["x-key"] == TOKEN
    assert "authorization" not in api.last["headers"]
    await box.call("o")
    assert "x-key" not in api.last["headers"]


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        (TOKEN, "several ways"),
        ({"kay": TOKEN}, "Did you mean 'key'?"),
        ({"key": f"{TOKEN}\r\nX: y"}, "auth['key']: a header can't hold line breaks"),
        ({"key": ("user", TOKEN)}, "must be text"),
    ],
)
async def test_auth_that_fits_no_scheme_is_refused(box: Toolbox, auth: Any, said: str) -> None:
    with pytest.raises(DocumentError) as refused:
        await box.add_openapi(secured("key", "bearer"), auth=auth)
    assert said in str(refused.value)
    assert TOKEN not in str(refused.value)


async def test_only_headers_that_say_who_asks_are_covered_in_answers(
    box: Toolbox, api: Api
) -> None:
    headers = {
        "X-Auth-Token": "blue-team-7", "Cookie": "sid=cookie-1234", "X-Key": "key-123456",
        "X-Tenant": "Shanghai-7", "X-Proxy": Secret("hidden"),
    }  # fmt: skip
    await box.add_openapi(secured("key"), base_url=api.url, headers=headers)

    text = (await box.call("it")).text

    assert all(word not in text for word in ("blue-team-7", "cookie-1234", "key-123456", "hidden"))
    assert "Shanghai-7" in text


async def test_headers_go_with_every_request(box: Toolbox, api: Api) -> None:
    paths = {"/x": {"get": operation(parameters=[{"name": "x-team", "in": "header"}])}}
    headers = {"X-Team": Secret("blue-team-7"), "Accept": "application/vnd.x+json"}
    await box.add_openapi(document(paths), base_url=api.url, headers=headers)

    outcome = await box.call("it", {"x-team": "red"})

    assert api.last["headers"]["x-team"] == "blue-team-7"
    assert api.last["headers"]["accept"] == "application/vnd.x+json"
    assert "blue-team-7" not in outcome.text
    assert "application/vnd.x+json" in outcome.text


async def test_a_refusal_says_what_was_not_given(box: Toolbox, api: Api) -> None:
    api.answer("/x", 401, "who are you")
    await box.add_openapi(secured("key"), base_url=api.url)
    outcome = await box.call("it")
    assert str(outcome.error).endswith('who are you It needs key: pass auth={"key": …}.')


async def test_no_secret_is_seen_in_outcomes_logs_schemas_or_the_ledger(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = tmp_path / "wieldy.db"
    seen: list[Outcome] = []
    told = {"token": f"Bearer {TOKEN}", "list": [TOKEN]}
    api.answer("/x", 500, json.dumps(told), Content_Type="application/json")
    api.answer("/y", 200, json.dumps(told), Content_Type="application/json")
    names = ("key", "query", "cookie", "basic")
    data = secured(*names)
    data["paths"]["/y"] = {"get": operation(operationId="y", security=[{"query": []}])}
    auth = {name: f"user:{TOKEN}" for name in names}
    async with Toolbox(store=f"sqlite:///{store}", observers=[seen.append]) as box:
        await box.add_openapi(data, base_url=api.url, auth=auth)
        failed = await box.call("it")
        fine = await box.call("y")
        rows = repr([await box.ledger.get(each.call.id) for each in (failed, fine)])
        shown = json.dumps(box.schemas("openai")) + repr([tool.fingerprint for tool in box])

    assert failed.status is Status.ERROR
    assert "500" in str(failed.error)
    kept = store.read_bytes()
    everything = [str(failed.error), failed.text, fine.text, rows, shown, caplog.text]
    for text in [*everything, *(each.text for each in seen), kept.decode("latin-1")]:
        assert TOKEN not in text
        assert base64.b64encode(f"user:{TOKEN}".encode()).decode() not in text


async def test_another_origin_gets_neither_secrets_nor_arguments(
    box: Toolbox, api: Api, other_api: Api
) -> None:
    api.answer("/x", 302, Location=f"{other_api.url}/there?a=1")
    data = secured("key", "query", "cookie", "bearer",
                   parameters=[{"name": "X-Mine", "in": "header"}])  # fmt: skip
    auth = dict.fromkeys(("key", "query", "cookie", "bearer"), TOKEN)
    await box.add_openapi(data, base_url=api.url, auth=auth, headers={"X-Extra": TOKEN})

    outcome = await box.call("it", {"X-Mine": "mine"})

    assert outcome.unwrap()["path"] == "/there"
    assert TOKEN not in json.dumps(other_api.asked)
    assert not other_api.last["headers"].keys() & {
        "x-key", "cookie", "authorization", "x-extra", "x-mine"
    }  # fmt: skip


async def test_the_same_origin_gets_them_again(box: Toolbox, api: Api) -> None:
    api.answer("/x", 307, Location="/there")
    await box.add_openapi(secured("key"), base_url=api.url, auth=TOKEN)
    await box.call("it")
    assert (api.last["path"], api.last["headers"]["x-key"]) == ("/there", TOKEN)


async def test_a_fetched_document_can_not_send_secrets_elsewhere(
    box: Toolbox, api: Api, other_api: Api
) -> None:
    data = {**secured("key"), "servers": [{"url": other_api.url}]}
    api.answer("/openapi.json", 200, json.dumps(data))

    with pytest.raises(DocumentError) as refused:
        await box.add_openapi(f"{api.url}/openapi.json", auth=TOKEN)
    assert f"base_url='{other_api.url}'" in str(refused.value)

    await box.add_openapi(f"{api.url}/openapi.json", base_url=other_api.url, auth=TOKEN)
    await box.call("it")
    assert other_api.last["headers"]["x-key"] == TOKEN


async def test_an_operation_can_not_send_secrets_to_a_server_of_its_own(
    box: Toolbox, api: Api, other_api: Api
) -> None:
    own = [{"url": other_api.url}]
    data = {**secured("key", servers=own), "servers": [{"url": api.url}]}
    data["paths"]["/y"] = {"servers": own, "get": operation(operationId="y")}
    await box.add_openapi(data, auth=TOKEN)

    for name in ("it", "y"):
        outcome = await box.call(name)
        assert "the credentials for GET" in str(outcome.error)
    assert other_api.asked == []


async def test_a_file_of_the_users_own_is_trusted_with_its_first_server(
    box: Toolbox, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps({**secured("key"), "servers": [{"url": api.url}]}))
    await box.add_openapi(file, auth=TOKEN)
    assert (await box.call("it")).status is Status.OK
    assert api.last["headers"]["x-key"] == TOKEN


async def test_who_can_not_be_reached_is_named_without_the_key(box: Toolbox) -> None:
    await box.add_openapi(secured("query"), base_url="http://127.0.0.1:9/v1", auth=TOKEN)
    outcome = await box.call("it")
    assert "the request to http://127.0.0.1:9 failed" in str(outcome.error)
    assert TOKEN not in str(outcome.error)
    assert TOKEN not in repr(getattr(outcome.error, "original", None))


@pytest.mark.parametrize(
    "url",
    ["{mine}@{theirs}", "{theirs}#@{mine}", "{theirs}?@{mine}", "//{theirs}", "{theirs}\\@x"],
)
async def test_a_server_is_where_requests_go_however_it_is_spelled(
    box: Toolbox, api: Api, other_api: Api, url: str
) -> None:
    mine, theirs = (each.url.removeprefix("http://") for each in (api, other_api))
    spelled = url.format(mine=mine, theirs=theirs)
    data = {**secured("key"), "servers": [{"url": f"http:{'' if spelled[:2] == '//' else '//'}"
                                                  f"{spelled}"}]}  # fmt: skip
    api.answer("/openapi.json", 200, json.dumps(data))
    try:
        await box.add_openapi(f"{api.url}/openapi.json", auth=TOKEN)
        await box.call("it")
    except DocumentError:
        pass
    assert other_api.asked == []


async def test_a_fetched_document_does_not_point_at_this_machine_from_outside() -> None:
    for url in ("http://127.0.0.1/", "http://localhost:8080", "http://10.0.0.1", "http://[::1]/"):
        data = document({"/x": {}}, servers=[{"url": url}])
        fetched = Document("https://docs.example/openapi.json", "it", data)
        with pytest.raises(DocumentError, match="on this machine or its network"):
            ServerUrls(fetched, None, False)
        ServerUrls(fetched, url, False)


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nb"}, {"bad name": "a"}, {"é": "a"}, {"X": 1}])
async def test_headers_that_can_not_be_sent_are_refused(box: Toolbox, headers: Any) -> None:
    with pytest.raises(DocumentError):
        await box.add_openapi(secured("key"), headers=headers)


async def test_a_document_that_was_moved_is_trusted_no_more_than_where_it_was_asked_for(
    box: Toolbox, api: Api, other_api: Api
) -> None:
    api.answer("/openapi.json", 302, Location=f"{other_api.url}/evil.json")
    other_api.answer("/evil.json", 200, json.dumps(secured("key")))
    with pytest.raises(DocumentError, match="the credentials would go to"):
        await box.add_openapi(f"{api.url}/openapi.json", auth=TOKEN)


async def test_a_server_can_not_say_who_asks(box: Toolbox, api: Api) -> None:
    url = api.url.replace("http://", "http://user:password@")
    data = document({"/x": {"get": operation()}}, servers=[{"url": url}])
    await box.add_openapi(data)
    assert "authorization" not in (await box.call("it")).unwrap()["headers"]


async def test_a_path_of_the_document_with_steps_up_is_not_asked_for(
    box: Toolbox, api: Api
) -> None:
    await box.add_openapi(document({"/v1/../admin": {"get": operation()}}), base_url=api.url)
    assert "not sent" in str((await box.call("it")).error)
    assert api.asked == []
