"""Configurations as other programs write them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mcp.conftest import SHOP, raw
from wieldy import InvalidSource, Toolbox
from wieldy.mcp.client.config import read_entries, read_file
from wieldy.mcp.client.server_source import Address, Command, read_source

PLAIN = {"command": sys.executable, "args": raw("plain")[1:]}


def only(entry: Any) -> Any:
    [read] = read_entries({"mcpServers": {"it": entry}}, "here").values()
    return read()


async def test_the_file_of_claude_desktop(box: Toolbox, tmp_path: Path) -> None:
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(json.dumps({"mcpServers": {"one": PLAIN, "two": PLAIN}, "theme": "dark"}))

    await box.add_mcp(path)

    assert list(box.mcp) == ["one", "two"]
    assert box.names == ["echo", "ask", "more", "two__echo", "two__ask", "two__more"]


async def test_the_file_of_vs_code_with_comments_and_trailing_commas(
    box: Toolbox, tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        f"""
        {{
          // which servers there are
          "inputs": [],
          "servers": {{
            /* made by hand */
            "shop": {{
              "type": "stdio",
              "command": {json.dumps(sys.executable)},
              "args": [{json.dumps(SHOP)}, "// not a comment",],
            }}, // the last
          }},
        }}
        """
    )

    await box.add_mcp(str(path))

    assert list(box.mcp) == ["shop"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "a", "args": ["b", 1]}, Command(["a", "b", "1"])),
        ({"type": "stdio", "command": "a", "cwd": "/x"}, Command(["a"], {}, "/x")),
        ({"url": "https://a/mcp"}, Address("https://a/mcp")),
        ({"url": "https://a", "type": "sse"}, Address("https://a", "sse")),
        ({"url": "https://a", "type": "streamable-http"}, Address("https://a", "http")),
        ({"url": "https://a", "transport": "streamableHttp"}, Address("https://a", "http")),
        ({"httpUrl": "https://a"}, Address("https://a", "http")),
        ({"serverUrl": "https://a", "headers": {"A": "b"}}, Address("https://a", None, {"A": "b"})),
        ({"command": "a", "disabled": True}, None),
        ({"command": "a", "disabled": False, "autoApprove": ["x"]}, Command(["a"])),
    ],
)
def test_entries_as_they_are_found_in_the_wild(entry: Any, expected: Any) -> None:
    assert only(entry) == expected


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "neither"),
        ([], "no object"),
        ({"command": ""}, "neither"),
        ({"command": "a", "args": "b"}, "'args' must be a list, not str"),
        ({"command": "a", "cwd": 5}, "'cwd' must be a string, not int"),
        ({"command": "a", "env": ["b"]}, "'env' must be an object, not list"),
        ({"url": 5}, "url"),
        ({"url": "https://a", "type": "carrier-pigeon"}, "carrier-pigeon"),
        ({"command": "${input:key}"}, "would ask a person"),
        ({"command": "a", "envFile": "/no/such/file"}, "envFile"),
    ],
)
def test_an_entry_that_can_t_be_right_says_what_is_wrong(entry: Any, words: str) -> None:
    with pytest.raises(InvalidSource, match=words):
        only(entry)


@pytest.mark.parametrize(
    "configuration",
    [
        {"mcpServers": {"it": PLAIN}},
        {"servers": {"it": PLAIN}},
        {"mcp": {"servers": {"it": PLAIN}}},
        {"it": PLAIN},
    ],
)
def test_the_servers_are_found_wherever_they_are_listed(configuration: Any) -> None:
    assert list(read_entries(configuration, "here")) == ["it"]


@pytest.mark.parametrize("configuration", [{}, {"mcpServers": {}}, {"theme": "dark"}])
async def test_a_configuration_without_servers_is_an_error(
    box: Toolbox, configuration: Any
) -> None:
    with pytest.raises(InvalidSource):
        await box.add_mcp(configuration)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "\ufeff{", "nul"])
async def test_a_file_that_can_t_be_read_is_an_error(
    box: Toolbox, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)

    with pytest.raises(InvalidSource, match=r"mcp\.json"):
        await box.add_mcp(path)


def test_variables_are_expanded_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "example.org")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)

    read = only(
        {
            "command": "${UNSET:-python}",
            "args": ["${HOST}:${PORT:-80}", "${EMPTY:-filled}", "${EMPTY}", "$HOST", "${UNSET:-}"],
            "env": {"URL": "https://${env:HOST}/${UNSET:-a b}"},
        }
    )

    assert read.command == ["python", "example.org:80", "filled", "", "$HOST", ""]
    assert read.env == {"URL": "https://example.org/a b"}
    with pytest.raises(InvalidSource, match="UNSET"):
        only({"command": "${UNSET}"})


def test_variables_of_an_env_file_are_given_to_the_server(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# keys\nA=1\nexport B='two words'\n\nbroken\nC=x=y\n")

    assert only({"command": "a", "envFile": str(path), "env": {"A": "own"}}).env == {
        "A": "own", "B": "two words", "C": "x=y",
    }  # fmt: skip


@given(st.text(), st.text(alphabet='",[]{}:/*\n x', max_size=30))
def test_comments_are_taken_out_and_texts_stay(text: str, odd: str) -> None:
    content = {"mcpServers": {text: {"command": odd}}}
    path = Path(f"/dev/shm/wieldy-test-{id(content)}.json")
    path.write_text("/* a */ // b\n" + json.dumps(content, indent=1).replace("\n}", ",\n}"))
    try:
        assert read_file(path) == content
    finally:
        path.unlink()


async def test_what_is_for_one_server_is_refused_for_several(box: Toolbox) -> None:
    both = {"mcpServers": {"a": PLAIN, "b": PLAIN}}

    with pytest.raises(InvalidSource, match="name="):
        await box.add_mcp(both, name="c")
    with pytest.raises(InvalidSource, match="headers="):
        await box.add_mcp(both, headers={"Authorization": "Bearer for a alone"})
    with pytest.raises(InvalidSource, match="headers="):
        await box.add_mcp(raw("plain"), headers={"A": "b"})
    with pytest.raises(InvalidSource, match="env="):
        await box.add_mcp("http://127.0.0.1:9/mcp", env={"A": "b"})


def test_a_command_may_be_longer_than_the_name_of_a_file() -> None:
    words = "server " + "--scope=read " * 30
    assert read_source(words) == Command(words.split())
    assert read_source(f"{words}settings.json") == Command([*words.split(), "settings.json"])
