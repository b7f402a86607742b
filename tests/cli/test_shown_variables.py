"""What a gateway fills in for `${NAME}` is shown as it is written, wherever somebody reads it."""

import json
import sys
from pathlib import Path

import httpx2
import pytest

from wieldy.cli.live_gateway import LiveGateway
from wieldy.mcp.client.config import read_entries, show_filled
from wieldy.mcp.client.server_source import Address
from wieldy.server import app

FILLED = {
    "LONG_PLACE": "a-value-with-eight-and-more",
    "SHORT": "tiny",
    "API_TOKEN": "s3cr",
    "FROM_FILE": "ends-with-a-line\n",
    "NAMED_SECRET": "a-secret-by-its-own-words\n",
    "VALUE_OF_ANN": "only-for-ann-and-nobody",
}
# It tells everything that it was given, and ends.
TELLTALE = 'import os, sys; sys.exit("|".join([*sys.argv[1:], os.environ.get("PIN", "")]))'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FILLED.items():
        monkeypatch.setenv(name, value)


def write_gateway(place: Path, more: str = "") -> Path:
    named = ["${LONG_PLACE}", "${SHORT}", "${API_TOKEN}", "${FROM_FILE}", "${NAMED_SECRET}"]
    arguments = json.dumps(["-c", TELLTALE, *named])
    text = (
        f"[listen]\nport = 0\n[servers.telltale]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {arguments}\nenv = {{ PIN = '${{LONG_PLACE}}' }}\n{more}"
    )
    file = place / "gateway.toml"
    file.write_text(text)
    return file


def check_shown(text: str) -> None:
    shown = text.replace("\r", "").replace("\n", "")
    for hidden in ("a-value-with-eight-and-more", "s3cr", "ends-with-a-line", "by-its-own-words"):
        assert hidden not in shown
    for named in ("${LONG_PLACE}", "${API_TOKEN}", "${FROM_FILE}", "${NAMED_SECRET}", "tiny"):
        assert named in shown


async def test_errors_and_servers_show_the_names_of_variables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await LiveGateway.open(write_gateway(tmp_path))
    async with gateway.found.toolbox as box:
        check_shown(capfd.readouterr().err)
        server = app(box)
        async with server.router.lifespan_context(server):
            transport = httpx2.ASGITransport(server, client=("127.0.0.1", 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                [told] = (await http.get("/api/servers")).json()["servers"]
                check_shown(told["error"])
    assert "s3cr" not in caplog.text


async def test_the_address_of_a_webhook_shows_the_names_of_variables(tmp_path: Path) -> None:
    more = (
        '[[webhooks]]\nname = "chat"\nsecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwSw"\n'
        'url = "https://chat.example.com/${LONG_PLACE}/${SHORT}?key=1"\n'
    )
    gateway = await LiveGateway.open(write_gateway(tmp_path, more))
    async with gateway.found.toolbox:
        [hook] = gateway.webhooks.hooks
        assert hook.url == "https://chat.example.com/a-value-with-eight-and-more/tiny?key=1"
        assert hook.shown_url == "https://chat.example.com/${LONG_PLACE}/tiny?…"
        assert "a-value" not in repr(hook)


def test_variables_are_found_in_every_form_of_a_text() -> None:
    entry = {"url": "https://host/${LONG_PLACE}/mcp", "headers": {"Authorization": "a ${SHORT}"}}
    source = read_entries({"mcpServers": {"it": entry}}, "a test")["it"]()
    assert isinstance(source, Address)
    said = f"{source} failed: tiny {FILLED['LONG_PLACE']!r} {FILLED['LONG_PLACE'][:5]}"
    assert show_filled(said, source.filled).endswith("failed: ${SHORT} '${LONG_PLACE}' a-val")
