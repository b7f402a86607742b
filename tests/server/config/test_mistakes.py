"""A gateway's file: every mistake is told, with its line and what to do."""

import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from wieldy.server.config.gateway_file import GatewayFile, read_seconds
from wieldy.server.config.mistakes import (
    FileMistakes,
    Mistake,
    check_text,
    read_gateway,
    write_schema,
)

GOOD = """name = "team"
store = "sqlite:///wieldy.db"
mode = "ask"
approval_ttl = "1d12h"
[listen]
port = 8000
[retention]
days = 30
[servers.time]
command = "uvx"
args = ["mcp-server-time"]
[[sources]]
path = "tools.py"
[views.readers]
read_only = true
[[rules]]
verdict = "ask"
tools = "send_*"
[access]
tokens = true
[callers.ann]
roles = ["call"]
view = "readers"
"""


def mistakes_in(text: str) -> list[Mistake]:
    found = check_text(text)
    assert isinstance(found, list)
    return found


def test_a_good_file_is_read() -> None:
    read = check_text(GOOD)
    assert isinstance(read, GatewayFile)
    assert (read.approval_ttl, read.servers["time"].args) == (129_600, ["mcp-server-time"])
    assert read.callers["ann"].view == "readers"


@pytest.mark.parametrize(
    ("right", "wrong", "line", "key", "said"),
    [
        ('name = "team"', "nam = 1", 1, "nam", "Did you mean name?"),
        ('name = "team"', "name = 3", 1, "name", "valid string, not 3"),
        ('name = "team"', 'name = ""', 1, "name", "at least 1 character"),
        ('"sqlite:///wieldy.db"', "[1]", 2, "store", "valid string"),
        ('mode = "ask"', 'mode = "perhaps"', 3, "mode", "'bypass', 'accept-edits'"),
        ('"1d12h"', '"soon"', 4, "approval_ttl", '"90s", "30m"'),
        ('"1d12h"', "-1", 4, "approval_ttl", "more than 0"),
        ("port = 8000", 'port = "8000"', 6, "listen.port", "valid integer, not '8000'"),
        ("port = 8000", "port = 99999", 6, "listen.port", "less than or equal to 65535"),
        ("port = 8000", "prot = 1", 6, "listen.prot", "Did you mean port?"),
        ("days = 30", "days = 0", 8, "retention.days", "greater than 0"),
        ('command = "uvx"', 'commnd = "x"', 10, "servers.time.commnd", "Did you mean command?"),
        ('command = "uvx"', "", 9, "servers.time", "needs a command or a url"),
        ('command = "uvx"', 'command = "x"\nurl = "http://x"', 9, "servers.time", "only one"),
        ('["mcp-server-time"]', '["x"]\nprefix = "a b"', 12, "servers.time.prefix", "'a b'"),
        ('["mcp-server-time"]', "[\n1]", 12, "servers.time.args[0]", "valid string, not 1"),
        ('path = "tools.py"', "", 12, "sources[0].path", "is missing"),
        ("read_only = true", "read_only = 1", 15, "views.readers.read_only", "valid boolean"),
        ('verdict = "ask"', 'verdict = "no"', 17, "rules[0].verdict", "'allow', 'ask' or 'deny'"),
        ('tools = "send_*"', "", 16, "rules[0]", "a rule needs a tool's name"),
        ('tools = "send_*"', "tags = []", 16, "rules[0]", "tags are one or more names"),
        (
            "tokens = true",
            "tokens = true\n[tasks]\nafter = 'soon'",
            22,
            "tasks.after",
            '"90s", "30m"',
        ),
        (
            "tokens = true",
            "tokens = true\n[tasks]\nrequired = 'x'",
            22,
            "tasks.required",
            "valid list",
        ),
        ("tokens = true", "token = true", 20, "access.token", "Did you mean tokens?"),
        ('roles = ["call"]', 'roles = ["root"]', 22, "callers.ann.roles[0]", "'administer'"),
        ('view = "readers"', 'view = "reader"', 23, "callers.ann.view", "Did you mean readers?"),
        (
            "tokens = true",
            '[access.oauth]\nissuer = "x"\naudience = "https://a"',
            21,
            "access.oauth.issuer",
            "begins with https://",
        ),
        (
            "tokens = true",
            '[access.oauth]\nissuer = "https://x"',
            20,
            "access.oauth.audience",
            "is missing",
        ),
        ('"sqlite:///wieldy.db"', '"mysql://x"', 2, "store", "a store is sqlite:///"),
        ('"sqlite:///wieldy.db"', '"sqlite:///a\\u0000b"', 2, "store", "NUL"),
        ('"1d12h"', "inf", 4, "approval_ttl", "a hundred years at most"),
        ("port = 8000", 'host = "http://a.b"', 6, "listen.host", "the name of a host"),
        ("port = 8000", 'host = "*"', 6, "listen.host", "the name of a host"),
        ("port = 8000", "grace = inf", 6, "listen.grace", "finite"),
        ("port = 8000", 'hosts = ["https://a.b"]', 6, "listen.hosts[0]", "without https://"),
        ("port = 8000", 'hosts = ["a.b:80"]', 6, "listen.hosts[0]", "without https://, port"),
        ("port = 8000", 'origins = ["a.b"]', 6, "listen.origins[0]", "https://app.example.com"),
        ("port = 8000", 'origins = ["https://a/b"]', 6, "listen.origins[0]", "written like"),
        ("port = 8000", 'trusted_proxies = ["a"]', 6, "listen.trusted_proxies[0]", "network"),
        ("port = 8000", 'trusted_proxies = ["10.1.1.1/8"]', 6, "listen.trusted_proxies[0]", "/8"),
        ("days = 30", "days = inf", 8, "retention.days", "finite"),
        ("days = 30", f"calls = {10**30}", 8, "retention.calls", "less than"),
        ('command = "uvx"', 'url = "tools"', 10, "servers.time.url", "begins with https://"),
        ('command = "uvx"', 'url = "https://[x"', 10, "servers.time.url", "begins with https://"),
        ('"uvx"', '"uvx"\ntype = "http"', 11, "servers.time.type", "with a url"),
        ('"uvx"', '"uvx"\ntimeout = inf', 11, "servers.time.timeout", "finite"),
        ('"uvx"', '"uvx"\nenv = { "A=B" = "x" }', 11, "servers.time.env.A=B", "name of a variable"),
        (
            'command = "uvx"',
            'url = "https://x"\nheaders = { A = "b\\nc: d" }',
            11,
            "servers.time.headers.A",
            "in one line",
        ),
        ("[servers.time]", '[servers.""]', 9, "servers.", "at least 1 character"),
        ("[listen]", "[listen", 5, "the file", "is not TOML"),
        ("[listen]", "[listen]\n[listen]", 6, "the file", "is not TOML"),
        ('name = "team"', "name = " + "[" * 5000, 1, "the file", "is nested more than 100"),
        ('name = "team"', 'name = "\\u0000"', 1, "the file", "is not TOML"),
    ],
)
def test_each_line_that_is_wrong_is_told(
    right: str, wrong: str, line: int, key: str, said: str
) -> None:
    if wrong.endswith('\\u0000"'):
        wrong = 'name = "\x00"'
    found = mistakes_in(GOOD.replace(right, wrong, 1))
    assert [(each.line, each.key, said in each.message) for each in found] == [(line, key, True)], (
        found
    )


def test_all_mistakes_are_told_in_the_order_of_their_lines() -> None:
    text = GOOD.replace("8000", '"x"').replace('"team"', "1").replace("days = 30", "dys = 1")
    found = mistakes_in(text)
    assert [each.line for each in found] == [1, 6, 8]


def test_what_does_not_fit_is_told_beside_what_is_wrong_by_itself() -> None:
    text = GOOD.replace("8000", '"x"').replace('view = "readers"', 'view = "x"') + (
        '[[webhooks]]\nurl = "https://127.0.0.1/"\nsecret = "x"\n[limits.tools.a]\nrat = 1\n'
    )
    found = [(each.line, each.key) for each in mistakes_in(text)]
    assert found == [
        (6, "listen.port"),
        (23, "callers.ann.view"),
        (25, "webhooks[0].url"),
        (26, "webhooks[0].secret"),
        (28, "limits.tools.a.rat"),
    ]


def test_a_mistake_makes_no_other_thing_look_wrong() -> None:
    text = GOOD.replace("tokens = true", "tokens = 1").replace("[views.readers]", "[view.readers]")
    assert [(each.line, each.key) for each in mistakes_in(text)] == [
        (14, "view"),
        (20, "access.tokens"),
    ]


def test_an_open_address_needs_tokens() -> None:
    text = GOOD[: GOOD.index("[access]")].replace("port = 8000", 'host = "0.0.0.0"')
    (mistake,) = mistakes_in(text)
    assert (mistake.line, mistake.key) == (6, "listen.host")


def test_an_empty_file_says_what_it_needs() -> None:
    (mistake,) = mistakes_in("")
    assert "[servers.NAME]" in mistake.message


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff\xfe", "can't be read"), (b"#" * 2_000_000, "larger than"), (None, "can't be read")],
)
def test_a_file_that_can_t_be_read_is_told(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "gateway.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileMistakes, match=said):
        read_gateway(path)


def test_hostile_keys_are_shown_as_text() -> None:
    (mistake, *_) = mistakes_in('"\\u202e[2J\\u001b" = 1\n' + GOOD)
    assert "\x1b" not in mistake.key
    assert "\u202e" not in mistake.key


def test_the_schema_for_editors_accepts_the_file() -> None:
    validator = jsonschema_rs.validator_for(json.loads(write_schema()))
    assert validator.is_valid(tomllib.loads(GOOD))
    assert not validator.is_valid({"listen": {"prot": 1}})


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5h", 5400), (3, 3), ("1w", 604800)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds
