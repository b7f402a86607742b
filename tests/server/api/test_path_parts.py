"""Names and ids in paths of the API, whatever characters they hold."""

import posixpath
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.server.api.api_client import api_of, make_box
from wieldy import Call
from wieldy.core.call import Scope
from wieldy.server.api.path_parts import read_part, write_part

# What browsers, proxies and servers change, cut off or take for something else.
AWKWARD = (
    "..",
    ".",
    "...",
    "../..",
    "a/../b",
    "/",
    "//x//",
    "%2F",
    "%2e%2e",
    "a%00b",
    "?b#c",
    "a;b=c&d+e",
    "\\..\\",
    " ",
    "\t\n",
    "\u200b",
    "\u202eepiw",
    "~",
    "~2E",
    "~7E41",
    "x/interrupt",
    "x/raw/arguments",
    "名字 🙂",
    "x" * 500,
)


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("")
@example("~")
@example("~2F")
def test_every_name_survives_what_changes_a_path(name: str) -> None:
    part = write_part(name)

    assert read_part(unquote(part)) == name
    address = f"/api/tools/{part}"
    assert posixpath.normpath(address) == address
    assert urljoin("http://host/", address) == f"http://host{address}"
    assert part.isascii() and not set(part) & set("/?#\\;&")


@pytest.mark.parametrize("name", ["send_mail", "a-b.c", "call_01JX", "shop.price"])
def test_a_plain_name_is_itself(name: str) -> None:
    assert write_part(name) == name


async def test_tools_and_calls_of_any_name_are_read(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:
        for name in AWKWARD:
            box.add(lambda: "done", name=name, permission="confirm")
        async with api_of(box) as client:
            for name in AWKWARD:
                await box.call(Call(name, {}, Scope(session=name, caller="cal"), id=name))
                part = write_part(name)
                read = [
                    (await client.get(f"/api/tools/{part}", "adam"))["name"],
                    (await client.get(f"/api/pending/{part}", "adam"))["call_id"],
                    (await client.get(f"/api/calls/{part}", "adam"))["call_id"],
                ]
                assert read == [name] * 3
                ended = await client.post(f"/api/pending/{part}/approve", {}, "ann")
                assert (ended["call_id"], ended["state"]) == (name, "ok")
                assert ended["blocks"][0]["url"] == f"/api/calls/{part}/blocks/0"


async def test_artifacts_and_chat_histories_of_any_name_are_read(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box, api_of(box) as client:
        for name in AWKWARD:
            part = write_part(name)
            await box.store.artifacts.create(name, "text", session=name)
            await box.store.sessions.append(name, {"role": "user", "content": "Hello."})
            for kind in ("artifacts", "artifact-versions"):
                await client.get(f"/api/{kind}/{part}", "adam", session=name)
            assert (await client.get(f"/api/sessions/{part}", "adam"))["session"] == name


async def test_a_percent_encoded_name_is_still_read(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    box.add(lambda: "done", name="a/b ~x")
    async with api_of(box) as client:
        assert (await client.get("/api/tools/a%2Fb%20~x", "adam"))["name"] == "a/b ~x"
