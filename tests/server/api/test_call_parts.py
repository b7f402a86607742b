"""The blocks and parts of a call: shown, cut, and read whole, whatever they hold."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.api.api_client import ApiClient, api_of, make_box
from wieldy import Audio, Image, Resource, Secret, Text, Toolbox
from wieldy.server.api.path_parts import write_part
from wieldy.wire.picture_kinds import find_picture_kind, find_picture_size

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
HTML = b"<html><script>alert(1)</script></html>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


async def make(client: ApiClient, tool: str, who: str | None = None, **arguments: Any) -> Any:
    return await client.post("/api/calls", {"tool": tool, "arguments": arguments}, who)


async def download(client: ApiClient, path: str) -> Any:
    # What is read as it is has no shape that the document could tell.
    return await client._client.get(path)


def make_picture_box(folder: Path) -> Toolbox:
    box = make_box(folder)

    @box.tool
    def draw() -> Iterator[Any]:
        yield Text("look:")
        yield Image(PNG)
        yield Image(PNG + b"\0" * 2_000_000, "image/png")
        yield Image(HTML, "image/png")
        yield Image(SVG, "image/svg+xml")
        yield Image("this is no base64 <b>", "image/gif")
        yield Audio(b"RIFF", "text/html")
        yield Resource("javascript:alert(1)", name="a link")
        yield Resource("file:///x", data=HTML, mime_type="text/html")
        yield Resource("file:///y", text="y" * 30_000, mime_type="text/html")
        yield Resource("artifact://notes%20of%20mine@3")

    return box


async def test_each_block_is_told_by_itself_and_pictures_by_their_bytes(tmp_path: Path) -> None:
    async with api_of(make_picture_box(tmp_path), tokens=False) as client:
        made = await make(client, "draw")
    facts = [(b["type"], b["mime_type"], b["data"] is not None, b["cut"]) for b in made["blocks"]]
    assert facts == [
        ("text", None, False, False),
        ("image", "image/png", True, False),
        ("image", "image/png", False, True),
        ("image", None, False, False),
        ("image", None, False, False),
        ("image", None, False, False),
        ("audio", "text/html", False, True),
        ("resource_link", None, False, False),
        ("resource", "text/html", False, True),
        ("resource", "text/html", False, True),
        ("resource_link", None, False, False),
    ]
    assert made["blocks"][1]["data"] == base64.b64encode(PNG).decode()
    assert len(made["blocks"][9]["text"]) == 20_000
    assert made["blocks"][10]["artifact"] == {"id": "notes of mine", "version": 3, "session": None}


async def test_a_block_is_read_as_it_is_and_can_do_nothing(tmp_path: Path) -> None:
    async with api_of(make_picture_box(tmp_path), tokens=False) as client:
        made = await make(client, "draw")
        answers = [await download(client, block["url"]) for block in made["blocks"] if block["url"]]
    types = [answer.headers["content-type"] for answer in answers]
    assert types == ["application/octet-stream", "image/png", "image/png"] + types[:1] * 6
    for answer in answers:
        shown = "inline" if answer.headers["content-type"] == "image/png" else "attachment"
        assert answer.headers["content-disposition"].startswith(f'{shown}; filename="block-')
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    contents = [answer.content for answer in answers]
    assert contents[:2] == [b"look:", PNG] and len(contents[2]) > 2_000_000
    assert contents[3:6] == [HTML, SVG, b"this is no base64 <b>"]


@pytest.mark.parametrize("part", ["blocks/0", "raw/value", "raw/arguments", "raw/metadata"])
async def test_nobody_reads_the_parts_of_anothers_call(part: str, tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        made = await make(client, "add", "cal", a=1, b=1)
        path = f"/api/calls/{made['call_id']}/{part}"
        assert await client.refused("GET", path, "bob") == (404, "not_found")
        for who in ("cal", "ann"):
            headers = {"Authorization": f"Bearer {who}-secret"}
            assert (await client._client.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize("part", ["blocks/1", "blocks/-1", "blocks/x", "blocks/²", "raw/x"])
async def test_a_part_that_is_not_there_is_not_found(part: str, tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        made = await make(client, "add", a=1, b=1)
        path = f"/api/calls/{made['call_id']}/{quote(part)}"
        assert await client.refused("GET", path) == (404, "not_found")


async def test_the_parts_of_a_waiting_call_hold_no_secret(tmp_path: Path) -> None:
    box = make_box(tmp_path)

    @box.tool(permission="confirm")
    def login(password: Secret) -> str:
        return "in"

    async with api_of(box, tokens=False) as client:
        made = await make(client, "login", password="hunter2-hunter2")
        raw = await download(client, f"/api/calls/{made['call_id']}/raw/arguments")
    assert made["state"] == "pending" and made["blocks"] == []
    assert json.loads(raw.content) == {"password": "**********"}


async def test_json_is_told_as_json_and_ten_megabytes_of_it_are_cut(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    box.add(lambda size: [*range(size)], name="count")
    async with api_of(box, tokens=False) as client:
        small = await make(client, "count", size=3)
        large = await make(client, "count", size=1_500_000)
        raw = await download(client, f"/api/calls/{large['call_id']}/raw/value")
    assert [(block["type"], block["value"]) for block in small["blocks"]] == [("json", [0, 1, 2])]
    assert [(block["type"], block["cut"]) for block in large["blocks"]] == [("text", True)]
    assert len(large["value"]) == len(large["blocks"][0]["text"]) == 20_000
    assert {part["part"] for part in large["cut"]} == {"value", "content"}
    assert json.loads(raw.content) == [*range(1_500_000)]


@pytest.mark.parametrize("depth", [90, 100, 101, 900, 10_000])
async def test_deep_json_breaks_nothing(depth: int, tmp_path: Path) -> None:
    box = make_box(tmp_path)

    @box.tool
    def nest() -> Any:
        value: Any = "bottom"
        for _ in range(depth):
            value = [value]
        return value

    async with api_of(box, tokens=False) as client:
        made = await make(client, "nest")
        whole = await client.get(f"/api/calls/{made['call_id']}", whole="true")
        raw = await download(client, f"/api/calls/{made['call_id']}/raw/value")
        listed = (await client.get("/api/calls"))["calls"]
    assert made["state"] == whole["state"] == listed[0]["state"]
    assert raw.status_code == 200
    assert (b"bottom" in raw.content) is (depth <= 100)


async def test_a_large_result_leads_to_its_artifact(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    tool = box.find_tool("long")
    assert tool is not None
    box.add(tool, on_conflict="override", max_result=1000)
    async with api_of(box) as client:
        made = await make(client, "long", "cal", size=5000)
        place = made["artifact"]
        read = await client.get(f"/api/artifacts/{place['id']}", "cal", version=place["version"])
    assert (place["session"], place["version"]) == ("cal", 1)
    assert read["content"] == "x" * 5000


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (SVG, None),
        (HTML, None),
        (b" \x89PNG\r\n\x1a\n", None),
        (b"", None),
    ],
)
def test_only_pictures_that_browsers_paint_are_pictures(data: bytes, kind: str | None) -> None:
    assert find_picture_kind(data) == kind


async def test_an_artifact_is_a_download_of_a_harmless_type(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    await box.artifacts.create('page".html', "first", content_type="html")
    await box.artifacts.rewrite('page".html', HTML.decode())
    async with api_of(box, tokens=False) as client:
        path = "/api/artifact-files/" + write_part('page".html')
        files = [await download(client, f"{path}{query}") for query in ("", "?version=1")]
        missing = await client.refused("GET", "/api/artifact-files/nothing")
    assert [each.content for each in files] == [HTML, b"first"]
    assert files[0].headers["content-type"] == "application/octet-stream"
    assert files[0].headers["content-disposition"] == 'attachment; filename="artifact-2.txt"'
    assert missing == (404, "not_found")


def _webp(kind: bytes, rest: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + rest


_JPEG = b"\xff\xd8\xff\xe0\0\x04ab"
_FRAME = b"\0\x11\x08\x01\x02\x03\x04"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (1, 1)),
        (PNG[:20], None),
        (PNG[:16] + b"\0" * 8, None),
        (b"GIF89a\x05\0\x01\x02", (5, 513)),
        (_JPEG + b"\xff\xc0" + _FRAME, (772, 258)),
        # A table is no frame, and a marker may come after more bytes of 255.
        (_JPEG + b"\xff\xc4\0\x02\xff\xff\xc2" + _FRAME, (772, 258)),
        (_JPEG + b"\xff\xda\0\x02\x00\x00\x00\x00", None),
        (_JPEG, None),
        (_JPEG + b"\xff\xd0\xff\x01\xff\xc0" + _FRAME, (772, 258)),
        # What looks like a frame inside of a part before it is none.
        (b"\xff\xd8\xff\xe1\0\x0b\xff\xc0" + _FRAME, None),
        (b"\xff\xd8\xff\xe1\0\0\xff\xc0" + _FRAME, None),
        (PNG[:12] + b"IDAT" + PNG[16:], None),
        (_webp(b"VP8 ", b"\0" * 3 + b"\x9d\x01\x2a" + b"\x07\x40\x09\0"), (7, 9)),
        (_webp(b"VP8 ", b"\0" * 6 + b"\x07\x40\x09\0"), None),
        (_webp(b"VP8L", b"\0" + (6 | 8 << 14).to_bytes(4, "little")), None),
        (_webp(b"VP8L", b"\x2f" + (6 | 8 << 14).to_bytes(4, "little")), (7, 9)),
        (_webp(b"VP8X", b"\0" * 4 + b"\x06\0\0\x08\0\x01"), (7, 65545)),
        (_webp(b"ALPH", b"\0" * 20), None),
        (SVG, None),
        (b"", None),
    ],
)
def test_the_size_of_a_picture_is_read_from_its_bytes(
    data: bytes, size: tuple[int, int] | None
) -> None:
    assert find_picture_size(data) == size


@given(st.sampled_from([PNG[:8], b"GIF87a", _JPEG, b"RIFF\0\0\0\0WEBPVP8X"]), st.binary())
def test_bytes_that_are_cut_or_broken_have_a_size_or_none(beginning: bytes, rest: bytes) -> None:
    size = find_picture_size(beginning + rest)

    assert size is None or min(size) > 0
