"""A document or a server does not lead requests to this machine, however it spells it."""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpcore2
import pytest

from tests.names import Names
from tests.openapi.api import Api, document, operation
from wieldy import DocumentError, ServiceError, Toolbox
from wieldy.core.network.addresses import Reach
from wieldy.core.network.http_client import Client, HttpRequest
from wieldy.openapi.document import Document
from wieldy.openapi.linked_documents import gather_documents
from wieldy.openapi.loading import load_document
from wieldy.openapi.server_urls import ServerUrls

FAR = "93.184.216.34"
OTHER_FAR = "93.184.216.35"
SPELLINGS = [
    "http://127.0.0.1:{port}/in", "http://2130706433:{port}/in", "http://0x7f000001:{port}/in",
    "http://0x7f.1:{port}/in", "http://017700000001:{port}/in", "http://127.1:{port}/in",
    "http://127.0.0.1.:{port}/in", "http://localhost:{port}/in", "http://localhost.:{port}/in",
    "http://[::ffff:127.0.0.1]:{port}/in", "http://[64:ff9b::7f00:1]:{port}/in",
    "http://[2002:7f00:1::]:{port}/in", "http://0:{port}/in", "http://rebind.example:{port}/in",
    "//127.1:{port}/in", "http://user@127.0.0.1:{port}/in",
]  # fmt: skip


class Line(httpcore2.AnyIOBackend):
    """Connects what is far to a server of the test, and notes to which address."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reached: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.reached.append(host)
        if host in (FAR, OTHER_FAR):
            host, port = "127.0.0.1", self.port
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


def _names(**more: list[Sequence[str]]) -> Names:
    known: dict[str, list[Sequence[str]]] = {
        "far.example": [[FAR]],
        "other.example": [[OTHER_FAR]],
        "rebind.example": [["127.0.0.1"]],
        "localhost": [["127.0.0.1", "::1"]],
    }
    return Names(known | {f"{name}.example": said for name, said in more.items()})


@asynccontextmanager
async def asking(api: Api, names: Names | None = None) -> AsyncIterator[tuple[Client, Line]]:
    line = Line(int(api.url.rpartition(":")[2]))
    client = Client(5, Reach(names or _names()), line)
    try:
        yield client, line
    finally:
        await client.close()


def _port(api: Api) -> str:
    return api.url.rpartition(":")[2]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_redirect_from_afar_to_this_machine_is_not_followed(
    api: Api, other_api: Api, spelling: str
) -> None:
    api.answer("/one", 302, Location="http://other.example/two")
    api.answer("/two", 307, Location=spelling.format(port=_port(other_api)))
    async with asking(api) as (client, line):
        with pytest.raises(ServiceError) as refused:
            await client.send(HttpRequest("GET", "http://far.example/one"), 1000)

    assert not refused.value.temporary
    assert [each["path"] for each in api.asked] == ["/one", "/two"]
    assert other_api.asked == []
    assert line.reached == [FAR, OTHER_FAR]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_document_from_afar_names_no_server_on_this_machine(spelling: str) -> None:
    url = "http:" + spelling.format(port=80).removeprefix("http:")
    fetched = Document("https://far.example/a.json", "it", document({}, servers=[{"url": url}]))
    if "rebind" in url:
        # Only a resolver can tell, when the request is made.
        ServerUrls(fetched, None, False)
        return
    with pytest.raises(DocumentError, match="on this machine or its network"):
        ServerUrls(fetched, None, False)
    ServerUrls(fetched, "http://127.0.0.1:80", False)


async def test_name_is_looked_up_once_and_what_was_checked_is_used(
    api: Api, other_api: Api
) -> None:
    names = _names(turning=[[FAR], ["127.0.0.1"]])
    async with asking(api, names) as (client, line):
        first = await client.send(HttpRequest("GET", "http://turning.example/x"), 100_000)
        url = f"http://turning.example:{_port(other_api)}/x"
        with pytest.raises(ServiceError, match=r"turning\.example is on this machine"):
            await client.send(HttpRequest("GET", url), 1000)

    assert json.loads(first.content)["headers"]["host"] == "turning.example"
    assert names.asked == ["turning.example"] * 2
    assert line.reached == [FAR]
    assert other_api.asked == []


async def test_address_that_does_not_answer_gives_way_to_the_next(api: Api) -> None:
    names = _names(two=[["127.0.0.1", FAR]])
    async with asking(api, names) as (client, line):
        client.allow("http://two.example/")
        answer = await client.send(HttpRequest("GET", "http://two.example:9/x"), 100_000)

    assert answer.status == 200
    assert line.reached == ["127.0.0.1", FAR]


async def test_user_reaches_what_the_user_named(api: Api, other_api: Api) -> None:
    api.answer("/x", 302, Location=f"{other_api.url}/y")
    async with Toolbox() as box:
        await box.add_openapi(document({"/x": {"get": operation()}}), base_url=api.url)
        outcome = await box.call("it")

    assert outcome.unwrap()["path"] == "/y"


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest", "http://10.0.0.1/"])
async def test_server_on_this_machine_does_not_lead_to_others_around_it(
    api: Api, target: str
) -> None:
    api.answer("/x", 302, Location=target)
    async with Toolbox() as box:
        await box.add_openapi(document({"/x": {"get": operation()}}), base_url=api.url)
        outcome = await box.call("it")

    assert "is on this machine or its network" in outcome.text


async def test_document_from_a_name_that_is_near_may_name_a_server_that_is_near(api: Api) -> None:
    names = _names(intranet=[["127.0.0.1"]])
    data = document({"/x": {"get": operation()}}, servers=[{"url": api.url}])
    api.answer("/openapi.json", 200, json.dumps(data))
    async with asking(api, names) as (client, _):
        loaded = await load_document(f"http://intranet.example:{_port(api)}/openapi.json", client)
        read = Document(loaded.address, loaded.shown, loaded.data, loaded.asked)

        ServerUrls(read, None, False, client)


@pytest.mark.parametrize(
    ("refs", "said"),
    [
        (lambda url: False, "is not followed without consent"),
        (lambda url: True, "leads out of what is allowed"),
        (lambda url: ["http://far.example/"], "leads out of what is allowed"),
        (lambda url: ["http://other.example/", url], None),
    ],
)
async def test_reference_from_afar_to_this_machine_needs_the_users_own_word(
    api: Api, other_api: Api, refs: Callable[[str], Any], said: str | None
) -> None:
    data = document({"/x": {"$ref": f"{other_api.url}/part.json"}})
    other_api.answer("/part.json", 200, json.dumps({"get": operation()}))
    fetched = Document("http://far.example/a.json", "it", data)
    async with asking(api) as (client, _):
        if said is None:
            await gather_documents(fetched, refs(other_api.url), client)
        else:
            with pytest.raises(DocumentError, match=said):
                await gather_documents(fetched, refs(other_api.url), client)

    assert bool(other_api.asked) is (said is None)


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "http://127.1:{port}/x", "http://far.example/"]
)
async def test_reference_that_is_moved_to_this_machine_is_not_read(
    api: Api, other_api: Api, target: str
) -> None:
    api.answer("/part.json", 302, Location=target.format(port=_port(other_api)))
    fetched = Document("http://other.example/a.json", "it", document({"/x": {"$ref": "part.json"}}))
    async with asking(api) as (client, _):
        with pytest.raises(DocumentError):
            await gather_documents(fetched, True, client)

    assert other_api.asked == []


async def test_proxy_of_the_environment_is_used_and_near_hosts_are_refused_before_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", other_api.url)
    monkeypatch.setenv("no_proxy", "direct.example")
    names = _names(direct=[[FAR]])
    async with asking(api, names) as (client, _):
        for host in ("far.example", "direct.example"):
            assert (
                await client.send(HttpRequest("GET", f"http://{host}/x"), 100_000)
            ).status == 200
        for host in ("rebind.example", "10.0.0.1", "localhost", "db.internal"):
            names.answers.setdefault(host, [["10.0.0.2"]])
            with pytest.raises(ServiceError, match="on this machine or its network"):
                await client.send(HttpRequest("GET", f"http://{host}/x"), 1000)

    assert [each["path"] for each in other_api.asked] == ["http://far.example/x"]
    assert [each["path"] for each in api.asked] == ["/x"]
