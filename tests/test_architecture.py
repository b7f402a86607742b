"""Hold the shape of the source: who imports whom, how long things are, what is public.

Each rule is a small function from source text to a list of faults. One test
runs it over the package, another feeds it an example that breaks the rule.
"""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_type_hints

import pytest

import wieldy

ROOT = "wieldy"
SRC = Path(__file__).parents[1] / "src"

# Each may import those before it and itself.
ORDER = (
    "core",
    "execution",
    "store",
    "wire",
    "lock",
    "mcp",
    "openapi",
    "toolbox_settings",
    "visible_tools",
    "view",
    "call_control",
    "toolbox",
    "models",
    "tools",
    "agent",
    "dialects",
    "server",
    "testing",
    "cli",
)
MODULE_LINES = 600
FUNCTION_LINES = 60
FOLDER_MODULES = 30
# Modules that import each other for their types at most.
KNOT_MODULES = 4
# The same subject on another floor, and the doors that keep an old import path. A provider has a
# file in wire/, which is pure, and one in models/ for its SDK.
SHARED_STEMS = {
    "anthropic",
    "app",
    "artifacts",
    "gemini",
    "lock",
    "openai",
    "openai_responses",
    "prompt",
    "registry",
    "settings",
    "suspicion",
    "tool",
    "toolkit",
    "tools",
    "xml",
}
# One per provider, behind the same methods.
SHARED_TYPES = {"StreamReader"}
# What each provider has a form of, and a command with the function that it runs.
SHARED_FUNCTIONS = {"provider_name", "run"}
# What is written in one place, by text that its copies would have too.
ONCE = {
    # Steps of JSON Pointers, and references made of them.
    '"~1"': "wieldy.core.schema.references",
    "#/$defs/": "wieldy.core.schema.references",
    # Commas before a closing bracket.
    "[}": "wieldy.core.arguments.loose_json",
    "yaml.parse": "wieldy.core.arguments.yaml_reader",
    '"+00:00"': "wieldy.core.timestamps",
    "parsedate_to_datetime(": "wieldy.core.timestamps",
    'partition("\\n")[0]': "wieldy.core.short_text",
    "characters in all)": "wieldy.core.short_text",
}
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "base"}
HEAVY = {
    "sqlalchemy",
    "opentelemetry",
    "jsonschema_rs",
    "typer",
    "rich",
    "mcp",
    "httpx",
    "httpx2",
    "starlette",
    "openai",
    "anthropic",
    "google.genai",
}
# What a program loads that never uses it, if `import wieldy` brings it along.
RARE = {
    "hashlib",
    "html",
    "unicodedata",
    "wieldy.core.discovery.search_words",
    "wieldy.core.limits.budget",
    "wieldy.core.limits.call_limits",
    "wieldy.core.permission.explanation",
    "wieldy.core.permission.url_match",
    "wieldy.core.permission.toolbox_state",
    "wieldy.store.store",
}


@dataclass(frozen=True)
class Module:
    """One source file under its dotted name."""

    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """The source, read once."""
        return ast.parse(self.source)

    @property
    def package(self) -> str:
        """The package that a relative import of this module starts from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module imports from this project."""

    target: str
    origin: str
    level: int
    line: int
    on_load: bool


class _Reader(ast.NodeVisitor):
    """Collect the imports of a module, with whether loading the module runs them."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: list[Import] = []
        self.on_load = True

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, alias.name, 0, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = _absolute(self.module.package, node.level, node.module)
        for alias in node.names:
            self._add(f"{origin}.{alias.name}", origin, node.level, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                level = len(name) - len(name.lstrip("."))
                target = _absolute(self.module.package, level, name.lstrip("."))
                self._add(target, target, level, node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self._visit_later(node.body)
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_later(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_later(node.body)

    def _visit_later(self, body: list[ast.stmt]) -> None:
        before, self.on_load = self.on_load, False
        for child in body:
            self.visit(child)
        self.on_load = before

    def _add(self, target: str, origin: str, level: int, line: int) -> None:
        if _within(target, ROOT) or level:
            self.found.append(Import(target, origin, level, line, self.on_load))


def _absolute(package: str, level: int, name: str | None) -> str:
    parts = package.split(".")
    start = parts[: len(parts) - level + 1] if level else []
    return ".".join([*start, *([name] if name else [])])


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _part(name: str, index: int) -> str:
    """The piece of a dotted name at an index, or nothing."""
    return (name.split(".") + [""] * index)[index]


@cache
def read_imports(module: Module) -> list[Import]:
    reader = _Reader(module)
    reader.visit(module.tree)
    return reader.found


def order_faults(module: Module) -> list[str]:
    """Imports that go down the order, sideways between dialects, or to the public list."""
    if module.name == ROOT:
        return []
    own = _part(module.name, 1)
    if own not in ORDER:
        return [f"{module.name}: has no place in the import order"]
    faults = []
    for found in read_imports(module):
        where = f"{module.name}:{found.line}"
        other = _part(found.target, 1)
        if other not in ORDER:
            faults.append(f"{where}: imports {found.target}, not the module that defines it")
        elif ORDER.index(other) > ORDER.index(own):
            faults.append(f"{where}: {own} may not import {other}")
        elif own == other == "dialects" and _is_sideways(module.name, found.target):
            faults.append(f"{where}: one dialect imports another, {found.target}")
    return faults


def _is_sideways(name: str, target: str) -> bool:
    own, other = _part(name, 2), _part(target, 2)
    return bool(own and other) and own != other


def form_faults(module: Module) -> list[str]:
    """Imports written the wrong way: relative inside a package, the full name across."""
    faults = []
    for found in read_imports(module):
        where = f"{module.name}:{found.line}"
        if found.level > 1:
            faults.append(f"{where}: an import climbs with '..'")
        elif module.name != ROOT and module.package == ROOT and found.level:
            faults.append(f"{where}: write the full name, {found.target}")
        elif module.package != ROOT and not found.level and _within(found.origin, module.package):
            faults.append(f"{where}: {found.target} is in the same package; write it relative")
    return faults


def cycle_faults(modules: Mapping[str, Module]) -> list[str]:
    """The first ring of modules that load each other, if there is one."""
    graph: dict[str, set[str]] = {}
    for module in modules.values():
        loaded = (found for found in read_imports(module) if found.on_load)
        named = {f.target if f.target in modules else f.origin for f in loaded}
        graph[module.name] = named - {module.name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["import cycle: " + " → ".join(reversed(error.args[1]))]
    return []


def knot_faults(modules: Mapping[str, Module]) -> list[str]:
    """Groups of modules that reach each other, type imports included, and are too large."""
    graph: dict[str, set[str]] = {}
    for module in modules.values():
        named = {f.target if f.target in modules else f.origin for f in read_imports(module)}
        graph[module.name] = named & modules.keys()
    reach = {name: _reachable(graph, name) for name in graph}
    knots = {frozenset({a for a in reach[b] if b in reach[a]}) for b in graph}
    return [f"knot: {', '.join(sorted(knot))}" for knot in knots if len(knot) > KNOT_MODULES]


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def folder_faults(modules: Mapping[str, Module]) -> list[str]:
    """Folders in which nobody finds a module at a glance."""
    sizes = Counter(module.package for module in modules.values())
    return [f"{name}: {size} modules" for name, size in sizes.items() if size > FOLDER_MODULES]


def twin_faults(modules: Mapping[str, Module]) -> list[str]:
    """Modules, and public types, that share a name though they are different things."""
    stems = Counter(m.name.rpartition(".")[2] for m in modules.values() if not m.is_package)
    types = Counter(
        node.name
        for module in modules.values()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twins = [name for name, count in stems.items() if count > 1 and name not in SHARED_STEMS]
    twins += [name for name, count in types.items() if count > 1 and name not in SHARED_TYPES]
    return [f"{name}: is the name of two things" for name in twins]


def namesake_faults(modules: Mapping[str, Module]) -> list[str]:
    """Functions of two modules with one name, both of which other modules import by that name."""
    imported = {found.target for module in modules.values() for found in read_imports(module)}
    defined = {
        (module.name, node.name)
        for module in modules.values()
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    functions = Counter(name for home, name in defined if f"{home}.{name}" in imported)
    twins = [n for n, count in functions.items() if count > 1 and n not in SHARED_FUNCTIONS]
    return [f"{name}: is the name of two functions" for name in twins]


def length_faults(module: Module) -> list[str]:
    """The module and the functions that are over the wall; a docstring is not counted as code."""
    faults = []
    lines = len(module.source.splitlines())
    if lines > MODULE_LINES:
        faults.append(f"{module.name}: {lines} lines, the wall is {MODULE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            if lines > FUNCTION_LINES:
                where = f"{module.name}:{node.lineno}"
                faults.append(f"{where}: {node.name} has {lines} lines, not {FUNCTION_LINES}")
    return faults


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def docstring_faults(module: Module) -> list[str]:
    """A module that does not say why it exists."""
    docstring = ast.get_docstring(module.tree)
    return [] if docstring else [f"{module.name}: does not open with a docstring"]


def name_faults(module: Module) -> list[str]:
    """A file or folder whose name says nothing about what is inside."""
    name = module.name.rpartition(".")[2]
    return [f"{module.name}: says nothing"] if name.strip("_") in EMPTY_NAMES else []


def public_faults(module: Module) -> list[str]:
    """A public list that is unsorted or lacks a public name of its module."""
    body = module.tree.body
    listed = next((found for node in body if (found := _list_of(node)) is not None), None)
    if listed is None:
        return [f"{module.name}: has no __all__"]
    faults = []
    if listed != sorted(listed, key=_public_key):
        faults.append(f"{module.name}: __all__ is not sorted")
    if len(listed) != len(set(listed)):
        faults.append(f"{module.name}: __all__ names something twice")
    public = {name for name in _bound_names(body) if not name.startswith("_")}
    faults += [f"{module.name}: {name} is not in __all__" for name in sorted(public - set(listed))]
    return faults


def guess_faults(module: Module) -> list[str]:
    """A `__getattr__` that type checkers see: they would take any name for one of the module."""
    body = module.tree.body
    seen = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body)
    return [f"{module.name}: type checkers believe in every name"] if seen else []


def _list_of(node: ast.stmt) -> list[str] | None:
    match node:
        case (
            ast.Assign(targets=[ast.Name(id="__all__")], value=value)
            | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
        ):
            return list(ast.literal_eval(value))
    return None


def _public_key(name: str) -> tuple[int, str]:
    """The order ruff holds `__all__` to: constants, classes, the rest; numbers by value."""
    natural = re.sub(r"\d+", lambda digits: digits[0].zfill(9), name)
    if len(name) > 1 and name.isupper():
        return 0, natural
    return (1 if name[0].isupper() else 2), natural


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """The names a module body defines or imports, apart from the standard library's."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names):
                yield from (a.asname or _part(a.name, 0) for a in names if not _is_std(a.name))
            case ast.ImportFrom(names=names, module=origin, level=level):
                if level or not _is_std(origin or ""):
                    yield from (alias.asname or alias.name for alias in names)
            case ast.If(body=inner, orelse=other):
                yield from _bound_names([*inner, *other])
            case ast.Assign() | ast.AnnAssign():
                stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
                yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))


def repeated_faults(module: Module) -> list[str]:
    """What a module does itself although another module is there for it."""
    return [
        f"{module.name}: {ONCE[form]} does that"
        for form in ONCE
        if form in module.source and ONCE[form] != module.name
    ]


def _is_std(name: str) -> bool:
    return _part(name, 0) in sys.stdlib_module_names


def loading_faults(statement: str, unwanted: set[str] = HEAVY) -> list[str]:
    """What a statement brings along in a fresh interpreter: unwanted packages, threads."""
    probe = (
        f"{statement}\nimport json, sys, threading\n"
        "print(json.dumps([sorted(sys.modules), threading.active_count()]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    loaded, threads = json.loads(done.stdout)
    faults = [f"loads {name}" for name in sorted(unwanted.intersection(loaded))]
    return faults + ([f"{threads} threads run"] if threads != 1 else [])


def _read_package() -> dict[str, Module]:
    modules = {}
    for path in sorted((SRC / ROOT).rglob("*.py")):
        is_package = path.name == "__init__.py"
        relative = (path.parent if is_package else path.with_suffix("")).relative_to(SRC)
        name = ".".join(relative.parts)
        modules[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return modules


PACKAGE = _read_package()
PUBLIC = [
    name
    for name, module in PACKAGE.items()
    if name == ROOT or (module.is_package and name.startswith(f"{ROOT}.dialects."))
]
# They load some of their names when these are asked for.
LAZY = [name for name, module in PACKAGE.items() if "def __getattr__(name" in module.source]


def test_there_is_a_package_to_read() -> None:
    assert ROOT in PACKAGE


def test_packages_import_only_what_comes_before_them() -> None:
    assert [fault for module in PACKAGE.values() for fault in order_faults(module)] == []


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("wieldy.core.a", "import wieldy.store.ledger", "core may not import store"),
        ("wieldy.core.a", "from wieldy import toolbox", "core may not import toolbox"),
        ("wieldy.mcp.a", "from wieldy.openapi import b", "mcp may not import openapi"),
        (
            "wieldy.core.a",
            "if TYPE_CHECKING:\n    from wieldy.wire.b import C",
            "core may not import wire",
        ),
        (
            "wieldy.toolbox",
            "class T:\n    async def f(self):\n        import wieldy.agent",
            "toolbox may not import agent",
        ),
        ("wieldy.core.a", "importlib.import_module('wieldy.mcp')", "core may not import mcp"),
        ("wieldy.server.a", "import wieldy.cli", "server may not import cli"),
        ("wieldy.store.a", "from wieldy import Toolbox", "not the module that defines it"),
        ("wieldy.store.a", "import wieldy", "not the module that defines it"),
        ("wieldy.stray", "", "no place in the import order"),
        ("wieldy.dialects.one.a", "from wieldy.dialects.two import b", "one dialect imports"),
        ("wieldy.dialects.one.a", "from wieldy.dialects import two", "one dialect imports"),
        ("wieldy.dialects.one", "from .two import b", "one dialect imports"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, source: str, fault: str) -> None:
    [found] = order_faults(Module(name, source))
    assert fault in found


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("wieldy.core.a", "from .b import C\nimport mcp\nimport wieldyish"),
        ("wieldy.store.a", "from wieldy.core.b import C"),
        ("wieldy.dialects.one.a", "from .b import C\nfrom wieldy.agent.c import D"),
        ("wieldy.cli", "import wieldy.server.app"),
    ],
)
def test_an_import_along_the_order_is_fine(name: str, source: str) -> None:
    module = Module(name, source)
    assert order_faults(module) + form_faults(module) == []


def test_imports_are_relative_inside_a_package_and_full_across() -> None:
    assert [fault for module in PACKAGE.values() for fault in form_faults(module)] == []


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        (Module("wieldy.core.a.b", "from ..c import D"), "climbs"),
        (Module("wieldy.core.a", "from .. import store"), "climbs"),
        (Module("wieldy.toolbox", "from .core.call import Call"), "write the full name"),
        (Module("wieldy.toolbox", "from . import core"), "write the full name"),
        (Module("wieldy.core.a", "from wieldy.core.b import C"), "write it relative"),
        (Module("wieldy.core.a", "import wieldy.core.b"), "write it relative"),
        (Module("wieldy.core", "from wieldy.core.b import C", True), "write it relative"),
    ],
)
def test_an_import_in_the_wrong_form_is_found(module: Module, fault: str) -> None:
    [found] = form_faults(module)
    assert fault in found


def test_no_modules_import_each_other_in_a_ring() -> None:
    assert cycle_faults(PACKAGE) == []


def test_no_group_of_modules_is_a_knot() -> None:
    assert knot_faults(PACKAGE) == []


def test_a_knot_of_type_imports_is_found() -> None:
    ring = {
        name: f"def f():\n    from .{after} import A"
        for name, after in zip("abcde", "bcdea", strict=True)
    }
    assert knot_faults(_modules(**dict(list(ring.items())[:4]))) == []

    [found] = knot_faults(_modules(**ring))

    assert all(f"core.{name}" in found for name in ring)


def test_no_folder_holds_more_modules_than_one_finds_at_a_glance() -> None:
    assert folder_faults(PACKAGE) == []


def test_a_full_folder_is_found() -> None:
    full = {f"m{number}": "" for number in range(FOLDER_MODULES)}
    assert folder_faults(_modules(**full)) == []
    assert folder_faults(_modules(**full, other="")) == ["wieldy.core: 31 modules"]


def test_no_two_things_have_one_name() -> None:
    assert twin_faults(PACKAGE) == []


def test_two_things_of_one_name_are_found() -> None:
    twins = [Module("wieldy.core.a", "class B: ..."), Module("wieldy.wire.a", "class B: ...")]
    assert len(twin_faults(dict(enumerate(twins)))) == 2  # type: ignore[arg-type]


def test_a_function_that_is_imported_has_its_name_to_itself() -> None:
    assert namesake_faults(PACKAGE) == []


def test_two_functions_of_one_name_are_found() -> None:
    read = "def read(): ..."
    apart = {"a": read, "b": read, "c": "from .a import read"}
    assert namesake_faults(_modules(**apart)) == []
    assert len(namesake_faults(_modules(**apart, d="from .b import read"))) == 1


def test_what_one_module_does_no_other_does_itself() -> None:
    assert [fault for module in PACKAGE.values() for fault in repeated_faults(module)] == []


def test_what_a_module_repeats_is_found() -> None:
    module = Module("wieldy.core.a", 'name = step.replace("~1", "/")')
    assert repeated_faults(module) == ["wieldy.core.a: wieldy.core.schema.references does that"]


def test_the_map_lists_every_module_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, SRC.parent / "scripts" / "list-modules", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def _modules(**sources: str) -> dict[str, Module]:
    named = {f"wieldy.core.{name}": source for name, source in sources.items()}
    return {name: Module(name, source) for name, source in named.items()}


def test_a_ring_of_imports_is_found() -> None:
    ring = _modules(a="from .b import B", b="from . import c", c="import wieldy.core.a")

    [found] = cycle_faults(ring)

    assert all(name in found for name in ring)


def test_an_import_that_does_not_run_on_load_makes_no_ring() -> None:
    typing_only = "if TYPE_CHECKING:\n    from .a import A"
    in_function = "def f():\n    from .a import A"
    assert cycle_faults(_modules(a="from .b import B", b=typing_only)) == []
    assert cycle_faults(_modules(a="from .b import B", b=in_function)) == []


def test_modules_and_functions_stay_under_the_wall() -> None:
    assert [fault for module in PACKAGE.values() for fault in length_faults(module)] == []


def test_a_module_or_function_over_the_wall_is_found() -> None:
    at_the_wall = "async def f():\n" + "    pass\n" * (FUNCTION_LINES - 1)
    assert length_faults(Module("wieldy.a", at_the_wall)) == []
    assert length_faults(Module("wieldy.a", "\n" * MODULE_LINES)) == []

    [function] = length_faults(Module("wieldy.a", at_the_wall + "    pass\n"))
    [module] = length_faults(Module("wieldy.a", "\n" * (MODULE_LINES + 1)))

    assert "f has 61 lines" in function
    assert "601 lines" in module


def test_every_module_opens_with_a_docstring() -> None:
    assert [fault for module in PACKAGE.values() for fault in docstring_faults(module)] == []


def test_a_module_without_a_docstring_is_found() -> None:
    assert docstring_faults(Module("wieldy.a", '"""Why it exists."""')) == []
    assert docstring_faults(Module("wieldy.a", "# a comment\nimport os")) != []


def test_file_names_say_what_is_inside() -> None:
    assert [fault for module in PACKAGE.values() for fault in name_faults(module)] == []


@pytest.mark.parametrize("name", ["utils", "_helpers", "common", "manager", "base"])
def test_an_empty_file_name_is_found(name: str) -> None:
    assert name_faults(Module(f"wieldy.core.{name}", "")) != []


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_list_is_sorted_and_complete(name: str) -> None:
    listed = importlib.import_module(name)

    assert public_faults(PACKAGE[name]) == []
    assert [entry for entry in listed.__all__ if not hasattr(listed, entry)] == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("", "has no __all__"),
        ("__all__ = ['b', 'a']", "not sorted"),
        ("__all__ = ['a', 'B']", "not sorted"),
        ("__all__ = ['a', 'a']", "twice"),
        ("__all__ = ['a']\ndef a(): ...\ndef b(): ...", "b is not in"),
        ("from wieldy.core.call import Call\n__all__ = []", "Call is not in"),
        ("from .core.call import Call as C\n__all__ = []", "C is not in"),
        ("if TYPE_CHECKING:\n    from .a import A\n__all__: list[str] = []", "A is not in"),
        ("__all__ = []\nlimit: int = 3", "limit is not in"),
    ],
)
def test_a_faulty_public_list_is_found(source: str, fault: str) -> None:
    [found] = public_faults(Module("wieldy", source, True))
    assert fault in found


def test_a_public_list_may_leave_out_private_and_standard_names() -> None:
    source = "import sys\nfrom typing import Any\n_x = 1\nLIMIT = Box = box = 2\n"
    listed = "__all__ = ['LIMIT', 'Box', '__version__', 'box']"
    assert public_faults(Module("wieldy", source + listed, True)) == []


@pytest.mark.parametrize("name", LAZY)
def test_public_names_are_listed_also_before_they_are_loaded(name: str) -> None:
    probe = f"import {name} as it\nassert not set(it.__all__) - set(dir(it)), dir(it)"
    subprocess.run([sys.executable, "-I", "-c", probe], check=True, timeout=120)


def test_a_wrong_name_is_wrong_for_type_checkers() -> None:
    assert [fault for module in PACKAGE.values() for fault in guess_faults(module)] == []


def test_a_module_that_has_every_name_is_found() -> None:
    source = "def __getattr__(name: str) -> object: ..."
    assert guess_faults(Module("wieldy.a", source)) != []
    assert guess_faults(Module("wieldy.a", f"if not TYPE_CHECKING:\n    {source}")) == []


@pytest.mark.parametrize("name", wieldy.__all__)
def test_the_types_of_a_constructor_can_be_read_while_it_runs(name: str) -> None:
    found = getattr(wieldy, name)
    get_type_hints(vars(found).get("__init__", found) if isinstance(found, type) else found)


def test_importing_wieldy_loads_nothing_heavy_and_starts_no_thread() -> None:
    assert loading_faults("import wieldy", HEAVY | RARE) == []


def test_what_a_fork_needs_is_registered_in_one_place() -> None:
    found = [name for name, module in PACKAGE.items() if "register_at_fork" in module.source]
    assert found == ["wieldy.core.forking"]


def test_importing_the_models_and_the_testing_module_loads_no_sdk() -> None:
    assert loading_faults("import wieldy.models, wieldy.testing") == []


def test_a_heavy_import_and_a_started_thread_are_found() -> None:
    statement = "import rich, threading\nthreading.Timer(1, print).start()"
    assert loading_faults(statement) == ["loads rich", "2 threads run"]
