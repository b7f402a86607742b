"""The webhooks of a gateway's file: every wrong line is told, and the environment is read late."""

import json
import tomllib
from typing import Any

import jsonschema_rs
import pytest

from wieldy.server.config.gateway_file import GatewayFile
from wieldy.server.config.mistakes import check_text, write_schema
from wieldy.server.config.webhook_tables import WebhookUnusable, make_webhooks
from wieldy.server.webhooks.webhook import EVENT_KINDS

GOOD = """[[sources]]
path = "tools.py"
[[webhooks]]
name = "chat"
url = "https://chat.example.com/hook"
secret = "${CHAT_SECRET}"
events = ["call.pending"]
tools = "github_*"
allow_private = false
[[webhooks]]
url = "http://127.0.0.1:9000/hook"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
allow_private = true
"""
SECRET = "s" * 24


def read(text: str) -> GatewayFile:
    found = check_text(text)
    assert isinstance(found, GatewayFile), found
    return found


def test_what_a_file_says_is_a_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_SECRET", SECRET)
    chat, near = make_webhooks(read(GOOD).webhooks)
    assert (chat.name, chat.url) == ("chat", "https://chat.example.com/hook")
    assert (chat.events, chat.tools, chat.secret) == (("call.pending",), "github_*", SECRET)
    assert (near.name, near.events, near.allow_private) == ("127.0.0.1", EVENT_KINDS, True)
    assert SECRET not in repr(chat)
    jsonschema_rs.validator_for(json.loads(write_schema())).validate(tomllib.loads(GOOD))


@pytest.mark.parametrize(
    ("right", "wrong", "line", "key", "said"),
    [
        ('name = "chat"', 'nam = "chat"', 4, "webhooks[0].nam", "Did you mean name?"),
        ('name = "chat"', 'name = "a b"', 4, "webhooks[0].name", "match pattern"),
        ('name = "chat"', "name = 7", 4, "webhooks[0].name", "valid string"),
        ('name = "chat"', 'name = "127.0.0.1"', 10, "webhooks[1]", "the same name"),
        ('url = "https://chat.example.com/hook"\n', "", 3, "webhooks[0].url", "is missing"),
        ("https://chat", "http://chat", 5, "webhooks[0].url", "begins with https://"),
        ("https://chat", "ftp://chat", 5, "webhooks[0].url", "begins with https://"),
        ("chat.example.com", "10.0.0.1", 5, "webhooks[0].url", "on this machine or its network"),
        ("chat.example.com", "[::1]", 5, "webhooks[0].url", "on this machine or its network"),
        ("chat.example.com", "localhost", 5, "webhooks[0].url", "on this machine or its network"),
        ("chat.example.com", "0x7f.1", 5, "webhooks[0].url", "read in two ways"),
        ("chat.example.com", "u:p@chat.example.com", 5, "webhooks[0].url", "no user and password"),
        ("chat.example.com/hook", "chat.example.com:99999", 5, "webhooks[0].url", "no address"),
        ("chat.example.com/hook", "a.com/#x", 5, "webhooks[0].url", "after a #"),
        ("chat.example.com/hook", "a.com/ü", 5, "webhooks[0].url", "ASCII"),
        ("https://chat.example.com/hook", "", 5, "webhooks[0].url", "at least 1 character"),
        ('secret = "${CHAT_SECRET}"\n', "", 3, "webhooks[0].secret", "is missing"),
        ("${CHAT_SECRET}", "short", 6, "webhooks[0].secret", "24 characters"),
        ("${CHAT_SECRET}", "whsec_!", 6, "webhooks[0].secret", "base64"),
        ('"${CHAT_SECRET}"', "{}", 6, "webhooks[0].secret", "valid string"),
        ("events = [", "old_secret = 'x'\nevents = [", 7, "webhooks[0].old_secret", "24 char"),
        ('"call.pending"', '"call.lost"', 7, "webhooks[0].events[0]", "'call.pending'"),
        ('["call.pending"]', "[]", 7, "webhooks[0].events", "at least 1 item"),
        ('["call.pending"]', '"call.pending"', 7, "webhooks[0].events", "valid list"),
        ('"github_*"', "[]", 8, "webhooks[0].tools", "valid string"),
        ("= false", '= "no"', 9, "webhooks[0].allow_private", "boolean"),
        ("allow_private = true", "", 11, "webhooks[1].url", "allow_private = true"),
        ("[[webhooks]]\nname", "[webhooks]\nname", 3, "the file", "is not TOML"),
    ],
)
def test_every_wrong_line_is_told(right: str, wrong: str, line: int, key: str, said: str) -> None:
    assert right in GOOD
    found = check_text(GOOD.replace(right, wrong, 1))
    assert isinstance(found, list)
    told = [(each.line, each.key) for each in found if said in each.message]
    if key == "the file":
        assert said in found[0].message
    else:
        assert told == [(line, key)], found


def test_a_secret_of_the_wrong_type_is_not_repeated() -> None:
    found = check_text(GOOD.replace('"${CHAT_SECRET}"', f'["{SECRET}"]'))
    assert isinstance(found, list)
    (mistake,) = found
    assert (mistake.key, SECRET in mistake.message) == ("webhooks[0].secret", False)


def test_an_address_of_the_environment_needs_a_name() -> None:
    text = GOOD.replace('name = "chat"\n', "").replace("https://chat.example.com/hook", "${URL}")
    found = check_text(text)
    assert isinstance(found, list)
    assert [(each.line, "needs a name" in each.message) for each in found] == [(3, True)]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "CHAT_SECRET is not set"),
        ({"CHAT_SECRET": "short"}, "webhooks[0].secret: a secret has 24 characters"),
        ({"CHAT_SECRET": SECRET, "URL": "http://far.example.com"}, "webhooks[0].url: the address"),
        ({"CHAT_SECRET": SECRET, "URL": "https://192.168.1.1"}, "on this machine or its network"),
        ({"CHAT_SECRET": "${caller.name}" * 3}, "a variable is written like ${NAME}"),
    ],
)
def test_what_the_environment_says_is_checked_when_it_is_served(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHAT_SECRET", "URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    text = GOOD.replace("https://chat.example.com/hook", "${URL}") if "URL" in environment else GOOD
    with pytest.raises(WebhookUnusable) as refused:
        make_webhooks(read(text).webhooks)
    assert said in str(refused.value)
    secret: Any = environment.get("CHAT_SECRET", SECRET)
    assert secret not in str(refused.value)
