"""003.11: prompts in documents."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from tests.core.test_bounded_json import nested
from wieldy.agent import Agent
from wieldy.core.bounded_json import dump_json
from wieldy.dialects.agently import Agently
from wieldy.testing import ScriptedModel

FILLING = {
    *("system", "developer", "input", "info", "instruct", "examples", "output", "rule", "role"),
    *("user_info", "attachment", "options", "set_agent_prompt", "set_request_prompt"),
}


def _methods_of(kind: type[Any]) -> set[str]:
    return {
        each for each in dir(kind) if not each.startswith("_") and callable(getattr(kind, each))
    }


DOCUMENT = """
.agent:
  system: You help ${who}.
  output:
    kept: {$type: bool, $desc: whether it is kept}
.request:
  instruct: [Be brief., Be kind.]
$info: {colour: "${colour}"}
input: Hello ${who}
output:
  name: {$type: str, $desc: the name}
  tags: [{.type: "list[str]", .desc: some tags}]
  free: {$desc: anything}
  nested: {$type: {inner: {.type: int, .desc: deep}}, $desc: a box}
  size: {$type: int}
.alias:
  set_settings: {.args: [greeting, 1]}
  rule: {value: Never lie., always: true}
"""

OUTPUT = {
    "name": (str, "the name"),
    "tags": [(list[str], "some tags")],
    "free": (Any, "anything"),
    "nested": ({"inner": (int, "deep")}, "a box"),
    "size": (int,),
}


def test_003_11_a_document_fills_both_prompts(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()
    colour = object()

    values = {"who": "Ada", "colour": colour}
    assert agent.load_yaml_prompt(DOCUMENT, values, methods=["set_settings"]) is agent

    assert agent.agent_prompt.get() == {
        "system": {"instruction": "You help Ada.", "rule": "Never lie."},
        "output": {"kept": (bool, "whether it is kept")},
        "info": {"colour": colour},
    }
    assert agent.request_prompt.get(inherit=False) == {
        "instruct": ["Be brief.", "Be kind."],
        "input": "Hello Ada",
        "output": OUTPUT,
    }
    assert agent.settings.get("greeting") == 1


def test_003_11_json_may_have_comments_and_trailing_commas(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()

    agent.load_json_prompt('{/* who */ ".agent": "Be brief.", \'.request\': "Hello",}')

    assert agent.agent_prompt.get() == {"system": "Be brief."}
    assert agent.request_prompt.get(inherit=False) == {"input": "Hello"}


def test_003_11_a_document_may_be_a_file_or_a_text_of_any_length(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text("input: grüß dich\n", encoding="utf-8")
    agent, _ = make_agent()

    assert agent.load_yaml_prompt(path).request_prompt.get("input") == "grüß dich"
    assert agent.load_yaml_prompt(str(path)).request_prompt.get("input") == "grüß dich"
    long = "x" * 1_000_000
    assert agent.load_yaml_prompt(f"input: {long}").request_prompt.get("input") == long
    assert agent.load_json_prompt(f'{{"input": "{long}"}}').request_prompt.get("input") == long


def test_003_11_a_key_path_chooses_a_part(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()

    agent.load_yaml_prompt("prompts: {hello: {input: hi}}", prompt_key_path="prompts.hello")

    assert agent.request_prompt.get("input") == "hi"


@pytest.mark.parametrize(
    ("document", "options", "error", "words"),
    [
        ("- a\n- b", {}, TypeError, "mapping"),
        ("missing.yaml", {}, TypeError, "there is none"),
        ("3", {}, TypeError, "mapping"),
        ("a: 1", {"prompt_key_path": "b.c"}, TypeError, "b.c"),
        ("a: 1", {"prompt_key_path": "a"}, TypeError, "'a'"),
        ("a: [1", {}, ValueError, "YAML"),
        (".alias: [rule]", {}, ValueError, "alias"),
        (".alias: {rule: Never lie.}", {}, ValueError, "rule"),
        (".alias: {rule: {.args: Never lie.}}", {}, TypeError, "list"),
    ],
)
def test_003_11_misuse_has_its_error(
    make_agent: MakeAgent, document: str, options: Any, error: type[Exception], words: str
) -> None:
    agent, _ = make_agent()

    with pytest.raises(error, match=words):
        agent.load_yaml_prompt(document, **options)


def test_003_11_malformed_json_is_a_value_error(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()

    with pytest.raises(ValueError, match="JSON"):
        agent.load_json_prompt('{"a": [1')


@pytest.mark.parametrize("name", ["no_such_method", "_respond", "__init__", "name"])
def test_003_11_an_unknown_alias_is_ignored_with_a_warning(
    make_agent: MakeAgent, name: str
) -> None:
    agent, _ = make_agent()

    with pytest.warns(UserWarning, match=name):
        agent.load_yaml_prompt(f"{{.alias: {{{name}: null}}, input: hi}}")

    assert agent.request_prompt.get("input") == "hi"


@pytest.mark.parametrize("name", sorted(_methods_of(Agent) - FILLING))
@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_a_document_calls_no_method_that_does_more_than_fill_prompts(
    make_agent: MakeAgent, name: str, kind: str, tmp_path: Path
) -> None:
    agent, _ = make_agent()
    path = tmp_path / "prompt"
    document = dump_json({".alias": {"rule": {"value": "x"}, name: {".args": [str(path)]}}})

    with pytest.raises(ValueError, match=re.escape(f"methods=['{name}']")):
        getattr(agent, f"load_{kind}_prompt")(document)

    assert not path.exists()
    assert agent.request_prompt.get(inherit=False) == {}


@pytest.mark.parametrize("name", sorted(FILLING))
def test_a_document_calls_what_fills_prompts(make_agent: MakeAgent, name: str) -> None:
    agent, _ = make_agent()
    slots = ["info", "text"] if name.startswith("set_") else ["text"]

    with suppress(TypeError, ValueError):
        # Some of them want other values than a text.
        agent.load_json_prompt(dump_json({".alias": {name: {".args": slots}}}))


def test_a_program_says_what_else_its_documents_may_call(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()

    agent.load_yaml_prompt(".alias: {set_settings: {.args: [a, 1]}}", methods=["set_settings"])

    assert agent.settings.get("a") == 1


def test_the_dialect_calls_no_more(make_agent: MakeAgent) -> None:
    agent = Agently.create_agent()

    with pytest.raises(ValueError, match="methods="):
        agent.load_yaml_prompt('.alias: {use_mcp: {.args: ["touch /tmp/x"]}}')


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("input: &a [*a]", "refers to itself"),
        ("a: &a x\n" + "b: &b [*a, *a]\ninput: *c", "to nothing"),
        (
            "a: &a [xxxxxxxxxx, xxxxxxxxxx]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdef", "bcdefg", strict=True)
            ),
            "repeat too much",
        ),
        (f"a: &a {'x' * 2000}\ninput: [{', '.join(['*a'] * 600)}]", "repeat too much"),
        ("input: " + "[" * 200 + "]" * 200, "levels deep"),
        ("input: !!python/object/apply:os.system [ls]", "not data"),
    ],
)
def test_a_document_that_grows_or_holds_itself_is_a_clear_error(
    make_agent: MakeAgent, document: str, words: str
) -> None:
    agent, _ = make_agent()

    with pytest.raises(ValueError, match=words):
        agent.load_yaml_prompt(document)


@pytest.mark.parametrize("comment", ["", "// a comment\n"])
def test_json_has_the_same_bounds(make_agent: MakeAgent, comment: str) -> None:
    agent, _ = make_agent()

    with pytest.raises(ValueError, match="levels deep"):
        agent.load_json_prompt(f'{comment}{{"input": {"[" * 200}{"]" * 200}}}')


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_003_11_what_is_written_back_loads_as_the_same_prompt(
    make_agent: MakeAgent, kind: str, tmp_path: Path
) -> None:
    agent, _ = make_agent()
    agent.load_yaml_prompt(DOCUMENT, {"who": "Ada", "colour": "red"}, methods="set_settings")
    agent.examples([{"in": 1, "out": "eins"}])
    path = tmp_path / "deep" / "prompt.txt"

    text = getattr(agent, f"get_{kind}_prompt")(save_to=path)
    other = Agent(ScriptedModel())
    getattr(other, f"load_{kind}_prompt")(path)

    assert path.read_text(encoding="utf-8") == text
    assert other.agent_prompt.get() == agent.agent_prompt.get()
    assert other.request_prompt.get(inherit=False) == agent.request_prompt.get(inherit=False)


def test_a_prompt_writes_itself(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()
    agent.input("hi").output({"n": (int, "a number")})

    assert "$type: int" in agent.request_prompt.to_yaml_prompt()
    assert '"$desc": "a number"' in agent.request_prompt.to_json_prompt()


@pytest.mark.parametrize(
    "document",
    [
        "input: ${n}",
        "input: n is ${n}",
        "${n}: a name",
        ".request: {'${n}': a name}",
        ".alias: {role: {value: '${n}'}}",
        ".alias: {role: {value: 'n is ${n}'}}",
    ],
)
def test_what_fills_a_document_has_the_bounds_of_a_prompt(
    make_agent: MakeAgent, document: str
) -> None:
    agent, _ = make_agent()

    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        agent.load_yaml_prompt(document, {"n": nested(5000)})
