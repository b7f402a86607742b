"""Limits on calls in a gateway's file."""

import json

import jsonschema_rs
import pytest

from wieldy import CallLimit
from wieldy.server.config.file_limits import read_limits
from wieldy.server.config.gateway_file import GatewayFile
from wieldy.server.config.mistakes import check_text, write_schema

START = '[[sources]]\npath = "tools.py"\n[access]\ntokens = true\n'
RIGHT = (
    START
    + """
[limits.tools."github_*"]
rate = "60/min"
concurrent = 4
[limits.caller]
rate = "600/h"
[limits.caller.tools.wipe]
concurrent = 1
[limits.callers.ann]
rate = "5/s"
[limits.callers.ann.tools."x_*"]
rate = "1000/day"
"""
)


def test_every_kind_of_limit_is_read() -> None:
    read = check_text(RIGHT)
    assert isinstance(read, GatewayFile), read
    assert read_limits(read) == [
        CallLimit(tools="github_*", rate="60/min", concurrent=4),
        CallLimit(caller="*", rate="600/h"),
        CallLimit(caller="*", tools="wipe", concurrent=1),
        CallLimit(caller="ann", rate="5/s"),
        CallLimit(caller="ann", tools="x_*", rate="1000/day"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ('[limits.tools."a"]\nrate = "60"', 6, "limits.tools.a.rate", "written like"),
        ('[limits.tools."a"]\nrate = "60/fortnight"', 6, "limits.tools.a.rate", "written like"),
        ('[limits.tools."a"]\nrate = 60', 6, "limits.tools.a.rate", "valid string"),
        ('[limits.tools."a"]\nconcurrent = 0', 6, "limits.tools.a.concurrent", "greater than"),
        ('[limits.tools."a"]\nconcurent = 1', 6, "limits.tools.a.concurent", "mean concurrent?"),
        ('[limits.tools."a"]', 5, "limits.tools.a", "limits nothing"),
        ("[limits.caller]", 5, "limits.caller", "limits nothing"),
        ("[limits.callers.ann.tools.b]", 5, "limits.callers.ann.tools.b", "limits nothing"),
        ("[limits.callers.ann]\nrat = 1", 6, "limits.callers.ann.rat", "mean rate?"),
        ("[limits.caller.tools.b]\nrat = 1", 6, "limits.caller.tools.b.rat", "mean rate?"),
        ("[limits.each]\nrate = 1", 5, "limits.each", "there is no such key"),
        ('[limits.callers."*"]\nrate = "1/s"', 5, "limits.callers.*", "[limits.caller]"),
        ("[limits]\ntools = 1", 6, "limits.tools", "valid dictionary"),
    ],
)
def test_each_mistake_is_told_with_its_line(text: str, line: int, key: str, message: str) -> None:
    found = check_text(START + text)
    assert isinstance(found, list)
    assert (found[0].line, found[0].key) == (line, key)
    assert message in found[0].message


def test_limits_by_name_need_names() -> None:
    text = RIGHT.replace("tokens = true", "tokens = false")
    found = check_text(text)
    assert isinstance(found, list)
    assert [(each.key, "tokens = true" in each.message) for each in found] == [
        ("limits.callers.ann", True)
    ]


def test_the_schema_for_editors_knows_limits_and_values_of_callers() -> None:
    schema = json.loads(write_schema())
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"limits": {"caller": {"rate": "1/s", "tools": {"a": {}}}}})
    assert validator.is_valid({"callers": {"ann": {"values": {"key": "x"}}}})
    assert not validator.is_valid({"limits": {"caller": {"rat": "1/s"}}})
    assert not validator.is_valid({"limits": {"tools": {"a": {"concurrent": 0}}}})
    assert not validator.is_valid({"servers": {"a": {"max_connections": 0}}})
