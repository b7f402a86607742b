"""What a model or a client reads of a value: never a secret, whoever renders it."""

import ast
import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import wieldy
from wieldy import Audio, Call, Image, Outcome, Resource, Secret, Status, Text, Toolbox
from wieldy.agent.strategies.native import Native
from wieldy.agent.strategies.xml import Xml
from wieldy.agent.tool_log import make_log
from wieldy.cli.json_views import outcome_data
from wieldy.core.limits.bounded_result import bound_outcome
from wieldy.core.secrets.covered_content import shown_value
from wieldy.server.api.call_shapes import describe_whole_call
from wieldy.tools.code_mode.program_values import value_for_program
from wieldy.wire import anthropic, gemini, mcp, openai, openai_responses
from wieldy.wire.prompt import format_result

KEY = "sk-live-7fJq2/aa+Zb"
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}|[A-Za-z0-9_-]{8,}")
SOURCE = Path(wieldy.__file__).parent


@dataclass
class Record:
    name: str
    raw: bytes


VALUES: list[Callable[[str], Any]] = [
    lambda key: f"the key is {key}",
    lambda key: {"key": key, "n": 1},
    lambda key: [1, key],
    lambda key: key.encode(),
    lambda key: bytearray(b"ab" + key.encode() + b"c"),
    lambda key: {"raw": b"a" + key.encode() + b"bc"},
    lambda key: [{"raw": [key.encode()]}],
    lambda key: Record("x", b"__" + key.encode()),
    lambda key: {key: "as a key"},
    lambda key: Text(key),
    lambda key: Image(b"a" + key.encode(), "image/png"),
    lambda key: Audio(b"ab" + key.encode(), "audio/wav"),
    lambda key: Resource("file:///a", data=b"abc" + key.encode(), mime_type="x/y"),
    lambda key: [Text("a"), Resource(f"http://a/{key}", text=key)],
    lambda key: base64.urlsafe_b64encode(b"." + key.encode() + b"..").decode(),
]
RENDERERS: dict[str, Callable[[Outcome, Toolbox], Any]] = {
    "openai": lambda each, box: openai.render([each]),
    "openai-responses": lambda each, box: openai_responses.render([each]),
    "anthropic": lambda each, box: anthropic.render([each]),
    "gemini": lambda each, box: gemini.render([each]),
    "mcp": lambda each, box: mcp.render([each]),
    "format_result": lambda each, box: format_result("show", each),
    "xml": lambda each, box: Xml(box).answer_turn([each], [each.call]).content,  # type: ignore[union-attr]
    "native": lambda each, box: Native(box).answer_turn([each], [each.call]).outcomes[0].content,  # type: ignore[union-attr]
    "tool log": lambda each, box: make_log(each, box.get("show")),
    "code mode": lambda each, box: value_for_program(each),
    "command": lambda each, box: outcome_data(each),
    "api": lambda each, box: describe_whole_call(each).model_dump(),
    "bounded": lambda each, box: shown_value(bound_outcome(each, 5)),
    "dict": lambda each, box: each.to_dict(),
    "repr": lambda each, box: repr(each) + each._repr_html_(),
    "value": lambda each, box: shown_value(each),
}


def texts(value: Any) -> Iterator[str]:
    """Every text inside what was rendered, and what its base64 says."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)
    else:
        text = value if isinstance(value, str) else repr(value)
        yield text
        for run in _BASE64.findall(text):
            for start in range(4):
                piece = run[start : start + (len(run) - start) // 4 * 4]
                yield base64.b64decode(piece, b"-_" if set(piece) & set("-_") else None).decode(
                    "latin-1"
                )


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("number", range(len(VALUES)))
async def test_no_renderer_shows_a_secret(renderer: str, number: int) -> None:
    box = Toolbox()

    def show(key: str) -> Any:
        return VALUES[number](key)

    box.add(show, presets={"key": Secret(KEY)})
    outcome = await box.call("show")
    assert outcome.status is Status.OK
    # The program itself gets the value as it is.
    assert outcome.metadata["covered"] is True

    rendered = list(texts(RENDERERS[renderer](outcome, box)))

    assert not [text for text in rendered if KEY in text]


@pytest.mark.parametrize("number", range(len(VALUES)))
async def test_no_row_keeps_a_secret(number: int, tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/a.db") as box:

        def show(key: str) -> Any:
            return VALUES[number](key)

        box.add(show, presets={"key": Secret(KEY)})
        outcome = await box.call("show")
        entry = await box.ledger.get(outcome.call.id)

        assert entry is not None
        assert not [text for text in texts([entry.value, entry.to_dict()]) if KEY in text]


async def test_a_value_without_a_secret_is_shown_as_it_is() -> None:
    outcome = Outcome(Call("show"), Status.OK, {"a": b"x"})

    assert shown_value(outcome) == {"a": b"x"}


# Where a value is read as it is: by the engine and the store, which cover it themselves, and
# where a program gets its own value back. Everything else reads `shown_value`.
RAW = {
    "agent/outcome_words.py": "a program that calls a tool by Agently's names gets its value",
    "cli/commands/demo.py": "the demo shows its own values",
    "core/engine.py": "it measures the value",
    "core/invoke.py": "it covers what is shown",
    "core/limits/bounded_result.py": "it reads the content where anything is covered",
    "core/limits/model_results.py": "it measures the value",
    "core/limits/deadline.py": "the end of what was left behind",
    "core/limits/result_cache.py": "kept for the same tool",
    "core/limits/result_size.py": "it measures the value",
    "core/outside/result_scan.py": "it is searched and not shown",
    "core/schema/result_check.py": "it is checked and not shown",
    "core/secrets/covered_content.py": "the covered view itself",
    "dialects/agentscope/response_chunks.py": "a response that a tool made is passed on",
    "dialects/sage/registry.py": "a program gets the value",
    "dialects/sage/remote_adapter.py": "a program gets the value",
    "server/api/call_shapes.py": "a row, in which secrets are covered",
    "tools/code_mode/stepwise_program.py": "an answer that was covered when it was kept",
    "store/ledger_writes.py": "a program gets the value of a call that could not be recorded",
    "store/recorder.py": "it measures the value",
    "store/row_values.py": "it is covered as it is written",
}


def _reads_of_values(path: Path) -> list[int]:
    """The lines on which `.value` is read of what is, or may be, an outcome."""
    found = []
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        outcomes = {"outcome", "recorded", "ended", "told"} | {
            each.arg
            for each in (*function.args.args, *function.args.kwonlyargs)
            if each.annotation is not None and "Outcome" in ast.unparse(each.annotation)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and "Outcome" in ast.unparse(node.value):
                outcomes |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and node.attr == "value":
                of = ast.unparse(node.value)
                if of in outcomes or of.rpartition(".")[2].strip("_").endswith("outcome"):
                    found.append(node.lineno)
    return found


def test_whatever_shows_a_value_reads_the_covered_view() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := _reads_of_values(path))
    }

    # A module that is new here shows what `shown_value(outcome)` gives, or says why it need not.
    assert found.keys() == RAW.keys()
