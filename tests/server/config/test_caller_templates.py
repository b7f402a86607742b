"""What a gateway's file may say about callers in the headers and the environment of servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.server.config.caller_templates import CallerFact, CallerTemplate, names_caller
from wieldy.server.config.gateway_file import GatewayFile
from wieldy.server.config.mistakes import check_text

START = "[access]\ntokens = true\n"
URL = '[servers.s]\nurl = "https://a.example/mcp"\n'
COMMAND = '[servers.s]\ncommand = "server"\n'
OAUTH = START + '[access.oauth]\nissuer = "https://i.example"\naudience = "https://g.example/mcp"\n'


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        (START + URL + 'headers.A = "${caller.token}"', 5, "A", "never passed on"),
        (START + URL + 'headers.A = "${caller.TOKEN}"', 5, "A", "never passed on"),
        (START + URL + 'headers.A = "${caller}"', 5, "A", "is not known. There are"),
        (START + URL + 'headers.A = "${caller.id}"', 5, "A", "is not known. There are"),
        (START + URL + 'headers.A = "${Caller.name}"', 5, "A", "is not known. There are"),
        (START + URL + 'headers.A = "${caller.claims.}"', 5, "A", "is not known. There are"),
        (START + URL + 'headers.A = "${caller.name"', 5, "A", "is not known. There are"),
        (START + URL + 'headers.A = "${caller.claims.x}"', 5, "A", "[access.oauth]"),
        (START + URL + 'headers.A = "${caller.values.x}"', 5, "A", "no [callers.NAME] has"),
        (URL + 'headers.A = "${caller.name}"', 3, "A", "tokens = true below [access]"),
        (START + COMMAND + 'headers.A = "${caller.name}"', 5, "headers", "with a url"),
        (START + URL + 'env.A = "${caller.name}"', 5, "env", "with a command"),
        (START + URL.replace("a.example", "${caller.name}"), 4, "url", "headers and env only"),
        (START + COMMAND + 'args = ["-u", "${caller.name}"]', 5, "args[1]", "headers and env only"),
        (START + COMMAND + 'cwd = "/${caller.name}"', 5, "cwd", "headers and env only"),
        (START + COMMAND + 'envFile = "${caller.name}"', 5, "envFile", "headers and env only"),
        (START + URL + 'listing.A = "x"', 5, "listing", "that has ${caller…}"),
        (START + URL + "max_connections = 5", 5, "max_connections", "that has ${caller…}"),
        (START + URL + 'idle = "5m"', 5, "idle", "that has ${caller…}"),
        (START + URL + 'headers.A = "${caller.name}"\nidle = "5 m"', 6, "idle", "written like"),
        (START + URL + 'headers.A = "${caller.name}"\nlisting.B = "x"', 6, "B", "which is A"),
        (
            START + URL + 'headers.A = "${caller.name}"\nlisting.A = "${caller.name}"',
            6,
            "A",
            "gateway's own",
        ),
        (
            START + URL + 'headers.A = "${caller.name}"\nheaders.a = "x"',
            5,
            "A",
            "different spellings",
        ),
        (
            START + '[callers.ann]\nvalues = { key = "${caller.name}" }\n' + URL,
            4,
            "key",
            "can't have ${caller…} in it",
        ),
        (
            START
            + '[callers.ann]\nvalues.search_key = "x"\n'
            + URL
            + 'headers.A = "${caller.values.serch_key}"',
            7,
            "A",
            "Did you mean search_key?",
        ),
    ],
)
def test_each_mistake_is_told_with_its_line(text: str, line: int, key: str, message: str) -> None:
    found = check_text(text)
    assert isinstance(found, list)
    assert (found[0].line, found[0].key.rpartition(".")[2]) == (line, key)
    assert message in found[0].message


def test_a_right_file_has_no_mistakes() -> None:
    text = OAUTH + URL + 'headers.A = "Bearer ${caller.claims.https://a.example/t} ${REGION}"\n'
    text += 'listing.A = "Bearer ${LISTING}"\nmax_connections = 9\nidle = "5m"\n'
    read = check_text(text + '[callers."oauth:ann"]\nvalues.key = "${KEY}"\n')
    assert isinstance(read, GatewayFile), read
    assert read.servers["s"].idle == 300.0


def test_a_template_is_filled_once() -> None:
    template = CallerTemplate.read("a ${caller.name} ${X} ${caller.claims.c.d}${caller.values.v}")
    assert template.facts == [
        CallerFact("name"),
        CallerFact("claims", "c.d"),
        CallerFact("values", "v"),
    ]
    expanded = template.expand(lambda text: text.replace("${X}", "${caller.name}"))
    assert expanded.fill(lambda fact: f"<{fact.kind}${{X}}>") == (
        "a <name${X}> ${caller.name} <claims${X}><values${X}>"
    )


@given(st.text())
def test_other_text_stays_as_it_is(text: str) -> None:
    if names_caller(text):
        return
    template = CallerTemplate.read(text)
    assert (template.facts, template.fill(lambda fact: "x")) == ([], text)
