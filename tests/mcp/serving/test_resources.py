"""Artifacts as resources: each client sees its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp_types import TextResourceContents

from tests.mcp.clients import MODES, Mode, connected, text_of
from tests.mcp.served import served
from wieldy import Limits, Toolbox
from wieldy.mcp import server

TOKENS = {"alice": "alice-secret-1", "bob": "bob-secret-2"}


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Toolbox]:
    async with Toolbox(store=f"sqlite:///{tmp_path / 'wieldy.db'}") as box:
        await box.artifacts.create("plan", "# Draft", title="The plan")
        await box.artifacts.rewrite("plan", "# Plan")
        await box.artifacts.create("a b/ü", "{}", content_type="application/json")
        await box.artifacts.create("diary", "Dear diary", session="alice")
        await box.artifacts.create("plan", "Bob's plan", session="bob")
        yield box


async def read(client: Client, uri: str) -> tuple[str | None, str]:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.mime_type, content.text


@pytest.mark.parametrize("mode", MODES)
async def test_artifacts_are_listed_and_read_in_every_version(mode: Mode, box: Toolbox) -> None:
    async with Client(server(box), mode=mode) as client:
        listed = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        assert [(each.name, each.title, each.mime_type) for each in listed] == [
            ("plan", "The plan", "text/markdown"),
            ("a b/ü", None, "application/json"),
        ]
        assert template.uri_template == "artifact://{id}@{version}"
        assert await read(client, listed[0].uri) == ("text/markdown", "# Plan")
        assert await read(client, listed[1].uri) == ("application/json", "{}")
        assert await read(client, "artifact://plan@1") == ("text/markdown", "# Draft")


async def test_a_large_result_of_an_upstream_server_is_read_through_a_gateway(
    box: Toolbox,
) -> None:
    upstream = Toolbox()
    upstream.add(lambda n: "x" * n, name="long")
    await box.add_mcp(server(upstream), limits=Limits(max_result=100))
    async with Client(server(box)) as client:
        cut = await client.call_tool("long", {"n": 5000})
        (kept,) = [r for r in (await client.list_resources()).resources if r.uri in str(cut)]
        assert await read(client, kept.uri) == ("text/plain", "x" * 5000)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "uri",
    [
        "artifact://plan@3",
        "artifact://diary@1",
        "artifact://none@1",
        "artifact://",
        "artifact://%ff@1",
        "file:///etc/passwd",
        "plan",
    ],
)
async def test_what_is_not_there_is_the_protocols_error(mode: Mode, uri: str, box: Toolbox) -> None:
    async with Client(server(box), mode=mode) as client:
        with pytest.raises(MCPError, match="no such resource") as raised:
            await client.read_resource(uri)
    assert (raised.value.error.code, raised.value.error.data) == (-32602, {"uri": uri})


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_does_not_read_anothers_artifacts(mode: Mode, box: Toolbox) -> None:
    with served(server(box), tokens=TOKENS) as url:
        async with connected(url, "alice-secret-1", mode) as alice:
            assert [each.uri for each in (await alice.list_resources()).resources] == [
                "artifact://diary@1"
            ]
            assert await read(alice, "artifact://diary@1") == ("text/markdown", "Dear diary")
            for uri in ("artifact://plan@1", "artifact://plan@2"):
                with pytest.raises(MCPError, match="no such resource"):
                    await alice.read_resource(uri)
        async with connected(url, "bob-secret-2", mode) as bob:
            assert await read(bob, "artifact://plan@1") == ("text/markdown", "Bob's plan")


@pytest.mark.parametrize("mode", MODES)
async def test_a_large_result_is_kept_for_the_client_whose_call_it_was(
    mode: Mode, box: Toolbox
) -> None:
    box.add(lambda: "x" * 10_000, name="much", max_result=100)
    with served(server(box), tokens=TOKENS) as url:
        async with connected(url, "alice-secret-1", mode) as alice:
            await alice.call_tool("much")
            uris = [each.uri for each in (await alice.list_resources()).resources]
            (kept,) = [uri for uri in uris if "diary" not in uri]
            assert (await read(alice, kept))[1] == "x" * 10_000
        async with connected(url, "bob-secret-2", mode) as bob:
            with pytest.raises(MCPError, match="no such resource"):
                await bob.read_resource(kept)


@pytest.mark.parametrize("mode", MODES)
async def test_a_store_that_is_gone_is_told_without_its_words(mode: Mode, tmp_path: Path) -> None:
    store = tmp_path / "wieldy.db"
    store.write_bytes(b"this is no database" * 1000)
    async with (
        Toolbox(store=f"sqlite:///{store}") as box,
        Client(server(box), mode=mode) as client,
    ):
        for asking in (client.list_resources(), client.read_resource("artifact://plan@1")):
            with pytest.raises(MCPError, match="can't be read now") as raised:
                await asking
            assert "wieldy.db" not in str(raised.value)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_a_result_over_the_bound_is_cut_and_read_in_parts(
    mode: Mode, stored: bool, tmp_path: Path
) -> None:
    whole = "".join(f"{n:09}\n" for n in range(25_000))
    async with Toolbox(store=f"sqlite:///{tmp_path}/kept.db" if stored else None) as box:
        box.add(lambda: whole, name="much")
        with served(server(box), tokens=TOKENS) as url:
            async with connected(url, "alice-secret-1", mode) as alice:
                result = await alice.call_tool("much")
                text = text_of(result)
                assert len(text) <= 100_000
                uri = text[text.index("artifact://") :].split("]")[0].split(",")[0]

                parts, following = [], uri
                while following:
                    part, *note = (await alice.read_resource(following)).contents
                    assert isinstance(part, TextResourceContents)
                    assert len(part.text) <= 100_000
                    parts.append(part.text)
                    following = note[0].uri if note else ""
                assert (len(parts), "".join(parts)) == (3, whole)
            async with connected(url, "bob-secret-2", mode) as bob:
                for each in (uri, f"{uri}?from=100001"):
                    with pytest.raises(MCPError, match="no such resource"):
                        await bob.read_resource(each)


async def test_a_box_without_a_store_has_no_resources() -> None:
    async with Client(server(Toolbox())) as client:
        assert client.server_capabilities.resources is None
