"""Run every code block of the documentation as its reader would.

The Python blocks of a page are one program, run from top to bottom in a folder
of its own. A top-level `await` works. A block that starts with a comment such
as `# tools.py` is also saved under that name, so that later commands find it.

Lines that start with `#>` after a statement are what the statement prints.
In a console block, the lines that start with `$ wieldy` are run as well. Lines
after them are what the command prints; `...` in them stands for anything.
"""

import __future__

import ast
import asyncio
import contextlib
import functools
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.forking.launch_files import run_forked, run_script
from wieldy import Toolbox
from wieldy.agent import BaseAgent

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted(ROOT.glob("docs/**/*.md")))
    if page.exists()
]
# The reference is generated, and the map of the source is no page for users.
FIRST_BLOCKS = [
    page for page in PAGES if page.parent.name != "reference" and page.name != "architecture.md"
]
# Their programs run code in a sandbox.
SANDBOXED = {"code-tools", "skills"}
COMMAND_SECONDS = 120
# Characters in a command that only a shell understands.
_FOR_A_SHELL = re.compile(r"[|&;<>$`*?~#]")

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
_PYTHON = {"py", "py3", "python", "python3", "pycon", "ipython"}
_FILE_NAME = re.compile(r"# (?P<name>[\w-]+\.py)$")
_FUTURES = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: the line its text starts on, the word after the fence, the text."""

    line: int
    info: str
    text: str


def read_blocks(text: str) -> Iterator[Block]:
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            continue
        body: list[str] = []
        for _, inner in lines:
            if _closes(inner, opening["marks"]):
                break
            body.append(inner)
        else:
            raise AssertionError(f"line {number}: the block is never closed")
        joined = textwrap.dedent("".join(f"{inner}\n" for inner in body))
        yield Block(number + 1, opening["info"].strip(), joined)


def _closes(line: str, marks: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found["marks"].startswith(marks) and not found["info"].strip()


def hidden_blocks(text: str) -> list[str]:
    """Python blocks that are spelled so that nothing would run them."""
    return [
        f"line {block.line - 1}: write ```python instead of ```{block.info}"
        for block in read_blocks(text)
        if block.info != "python" and _language(block.info) in _PYTHON
    ]


def _language(info: str) -> str:
    words = re.split(r"[\s,{}.:]+", info.strip(" {."))
    return words[0].lower()


class Page:
    """One page as a program: its names, its event loop and the current folder."""

    def __init__(self, path: Path, runner: asyncio.Runner) -> None:
        self.path = path
        self.runner = runner
        self.module = ModuleType("__main__")
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def run(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        assert hidden_blocks(text) == []
        for block in read_blocks(text):
            if block.info == "python":
                self._run_python(block)
            elif block.info == "console":
                self._run_commands(block)

    def _run_python(self, block: Block) -> None:
        if name := _FILE_NAME.match(block.text.partition("\n")[0]):
            Path(name["name"]).write_text(block.text, encoding="utf-8")
        # The empty lines give tracebacks the line numbers of the page.
        source = "\n" * (block.line - 1) + block.text
        tree = ast.parse(source, str(self.path))
        steps = self._run_steps(tree.body, _expected(tree.body, source))
        # Code that awaits nothing runs without a loop, as it would in a file.
        if self._compile(tree).co_flags & inspect.CO_COROUTINE:
            self.runner.run(steps)
        else:
            with contextlib.suppress(StopIteration):
                steps.send(None)

    async def _run_steps(self, body: list[ast.stmt], expected: dict[int, str]) -> None:
        for node in body:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                running = eval(self._compile(ast.Module([node], [])), self.module.__dict__)
                if isinstance(running, Awaitable):
                    await running
            end = node.end_lineno or node.lineno
            if end in expected:
                assert _trimmed(printed.getvalue()) == expected[end], f"line {node.lineno}"

    def _compile(self, tree: ast.Module) -> CodeType:
        code: CodeType = compile(tree, str(self.path), "exec", self.flags, dont_inherit=True)
        self.flags |= code.co_flags & _FUTURES
        return code

    def _run_commands(self, block: Block) -> None:
        search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        for line, printed in _commands(block.text):
            if not line.startswith("$ wieldy"):
                continue
            done = _run_line(line.removeprefix("$ "), {**os.environ, "PATH": search})
            assert done.returncode == 0, f"{line}\n{done.stdout}"
            pattern = re.escape(printed).replace(r"\.\.\.", ".*")
            shown = _trimmed(done.stdout)
            assert not printed or re.fullmatch(pattern, shown, re.DOTALL), f"{line}\n{done.stdout}"


def _run_line(line: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    if not _FOR_A_SHELL.search(line):
        words = shlex.split(line)[1:]
        return run_forked(words, None, environment, COMMAND_SECONDS, together=True)
    return subprocess.run(
        line,
        shell=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
    )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what it is said to print."""
    command, printed = "", ""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            yield command, _trimmed(printed)
            command, printed = line, ""
        else:
            printed += line + "\n"
    yield command, _trimmed(printed)


def _expected(body: list[ast.stmt], source: str) -> dict[int, str]:
    """What the statement that ends on a line is said to print."""
    lines = source.splitlines()
    claims = {n for n, line in enumerate(lines, start=1) if line.lstrip().startswith("#>")}
    expected = {}
    for end in {node.end_lineno or node.lineno for node in body}:
        following: list[str] = []
        while (number := end + len(following) + 1) in claims:
            following.append(lines[number - 1].lstrip().removeprefix("#>").removeprefix(" "))
            claims.discard(number)
        if following:
            expected[end] = _trimmed("\n".join(following))
    assert not claims, f"lines {sorted(claims)}: '#>' does not follow a whole statement"
    return expected


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n")


def run_page(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run one page in a folder and give back the names it made."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with asyncio.Runner() as runner:
        page = Page(path, runner)
        # Pickling and type hints look a class up in the module it names.
        monkeypatch.setitem(sys.modules, "__main__", page.module)
        try:
            page.run()
        finally:
            close_boxes(runner, [page.module, *saved_modules(folder)])
            stop_tracing()
    return page.module


def stop_tracing() -> None:
    """Forget the provider that a page has set for its process, which is ours."""
    if api := sys.modules.get("opentelemetry.trace"):
        vars(api)["_TRACER_PROVIDER"] = None


def saved_modules(folder: Path) -> list[ModuleType]:
    """The modules that a page has saved in its folder and imported."""
    places = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return [
        sys.modules[name]
        for name, place in places.items()
        if place and Path(place).is_relative_to(folder)
    ]


def close_boxes(runner: asyncio.Runner, modules: list[ModuleType]) -> None:
    """Close the boxes that a page leaves open; its reader's program would just end."""
    held = [each for module in modules for each in list(vars(module).values())]
    for each in held:
        box = each.toolbox if isinstance(each, BaseAgent) else each
        if isinstance(box, Toolbox):
            runner.run(box.close())


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.relative_to(ROOT).as_posix(),
            marks=pytest.mark.needs("the sandbox") if page.stem in SANDBOXED else (),
        )
        for page in PAGES
    ],
)
def test_the_code_of_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", FIRST_BLOCKS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_begins_with_a_program_that_runs_as_a_saved_file(
    page: Path, tmp_path: Path
) -> None:
    blocks = read_blocks(page.read_text(encoding="utf-8"))
    first = next((block for block in blocks if block.info == "python"), None)
    assert first is not None, "the page has no program"
    saved = tmp_path / "saved.py"
    saved.write_text(first.text, encoding="utf-8")
    done = run_script(saved, tmp_path, dict(os.environ), COMMAND_SECONDS)
    assert done.returncode == 0, done.stderr


class Reader:
    """Runs pages that a test writes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def run(self, *blocks: str, info: str = "python") -> ModuleType:
        page = self.folder / "page.md"
        text = "\n\n".join(f"```{info}\n{block}\n```" for block in blocks)
        page.write_text(f"# Title\n\n{text}\n", encoding="utf-8")
        work = self.folder / "work"
        work.mkdir()
        return run_page(page, work, self.monkeypatch)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    return Reader(tmp_path, monkeypatch)


def test_blocks_share_names_and_one_event_loop(reader: Reader) -> None:
    names = reader.run(
        "import asyncio\nfirst = asyncio.get_running_loop()\nawait asyncio.sleep(0)",
        "await asyncio.sleep(0)\nsame = first is asyncio.get_running_loop()",
    )
    assert names.same


def test_a_block_without_await_may_start_its_own_loop(reader: Reader) -> None:
    names = reader.run(
        "import asyncio\nasync def main():\n    return 3",
        "if __name__ == '__main__':\n    three = asyncio.run(main())",
    )
    assert names.three == 3


def test_a_future_import_holds_for_the_statements_after_it(reader: Reader) -> None:
    names = reader.run("from __future__ import annotations", "def f(x: later): ...")
    assert names.f.__annotations__ == {"x": "later"}


def test_a_named_block_is_saved_for_later_blocks(reader: Reader) -> None:
    names = reader.run("# shapes.py\nSIDES = 4", "import shapes\nsides = shapes.SIDES")
    assert names.sides == 4


def test_a_failing_block_fails_with_the_line_of_the_page(reader: Reader) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        reader.run("x = 1", "x / 0")
    assert caught.traceback[-1].lineno == 7


def test_what_a_statement_prints_is_compared(reader: Reader) -> None:
    reader.run("print('a\\nb')\n#> a\n#> b", "for i in range(2):\n    print(i)\n    #> 0\n    #> 1")


@pytest.mark.parametrize(
    "block",
    [
        "print(1)\n#> 2",
        "print(1)\n#> 1\n#> 2",
        "print(1)\n\n#> 1",
        "def f():\n    print(1)\n    #> 1\n    return 2",
    ],
)
def test_a_wrong_or_loose_print_comment_fails(reader: Reader, block: str) -> None:
    with pytest.raises(AssertionError):
        reader.run(block)


@pytest.mark.parametrize("info", ["python no-run", "py", "Python", "{.python}", "python3", "pycon"])
def test_a_block_cannot_hide(reader: Reader, info: str) -> None:
    with pytest.raises(AssertionError, match="write ```python instead"):
        reader.run("x = 1", info=info)


def test_an_unclosed_block_fails() -> None:
    with pytest.raises(AssertionError, match="never closed"):
        list(read_blocks("```python\nx = 1\n"))


def test_blocks_are_read_with_their_lines_and_without_their_indent() -> None:
    text = "- item\n\n  ```python\n  if x:\n      y\n  ```\n\n~~~~text\n```python\n~~~~\n"
    assert list(read_blocks(text)) == [
        Block(4, "python", "if x:\n    y\n"),
        Block(9, "text", "```python\n"),
    ]


def test_commands_of_wieldy_run_and_others_do_not(reader: Reader) -> None:
    reader.run("$ wieldy --help\n...Usage: ...\n$ make no-such-recipe", info="console")


def test_what_a_command_prints_is_compared(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="wieldy --version"):
        reader.run("$ wieldy --version\nwieldy 0.0...", info="console")


def test_a_failing_command_fails(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="no-such-command"):
        reader.run("$ wieldy no-such-command", info="console")
