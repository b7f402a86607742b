"""Load a toolbox or an agent from a Python file, or from a module by name."""

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from wieldy.core.errors import WieldyError, describe_exception
from wieldy.core.names import find_near_names
from wieldy.view import View

from .environment import is_missing

if TYPE_CHECKING:
    from wieldy.agent.served_agent import ServedAgent

T = TypeVar("T")


class SourceError(WieldyError):
    """A source can't be read; the message says what to change."""


def load_box(source: str) -> "tuple[View, ServedAgent | None]":
    """The toolbox, view or agent of a source: the one of the name after a colon, if there is one.

    Otherwise it is its `agent`, or its `box` if it has no agent. Of an agent it is the toolbox, in
    which the agent is a tool.
    """
    path, name, module = _load_module(source, "box")
    found: Any = getattr(module, name, None)
    if not _is_named(source) and _is_agent(module.__dict__.get("agent")):
        found = module.__dict__["agent"]
    if isinstance(found, View) or not _is_agent(found):
        return _expect_object(path, name, module, View, "Toolbox"), None
    # Agents are loaded only where a source has one.
    from wieldy.agent.served_agent import ServedAgent  # noqa: PLC0415

    try:
        served = ServedAgent(found, getattr(module, "deps", None))
    except ValueError as error:
        hint = f" {path}:box names its toolbox." if hasattr(module, "box") else ""
        raise SourceError(f"{path} can't be used: {error}{hint}") from error
    return served.box, served


def load_named(source: str, default: str, kind: type[T], title: str) -> T:
    """The object of a kind in a source, under the name given after a colon or the default name."""
    return _expect_object(*_load_module(source, default), kind, title)


def _is_agent(found: Any) -> bool:
    agents = sys.modules.get("wieldy.agent.extensions.tools")
    return agents is not None and isinstance(found, agents.ToolExtension)


def _load_module(source: str, default: str) -> tuple[str, str, ModuleType]:
    path, _, name = source.rpartition(":") if _is_named(source) else (source, "", default)
    module = _from_file(Path(path)) if path.endswith(".py") else _from_name(path)
    return path, name, module


def _expect_object(path: str, name: str, module: ModuleType, kind: type[T], title: str) -> T:
    found = getattr(module, name, None)
    if isinstance(found, kind):
        return found
    there = [each for each, value in vars(module).items() if isinstance(value, kind)]
    hint = find_near_names(name, there) or there
    advice = f"Did you mean {path}:{hint[0]}?" if hint else f"It has no {title} at all."
    raise SourceError(f"{path} has no {title.lower()} named {name!r}. {advice}")


def _is_named(source: str) -> bool:
    # A drive letter such as C: is part of a path.
    return ":" in source[2:] and not source.endswith(".py")


class _Uncached(SourceFileLoader):
    """Compiles the source file each time.

    A cached bytecode file counts as current if it has the same timestamp to the second, so an
    edit within that second would be missed.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _from_file(path: Path) -> ModuleType:
    if is_missing(path):
        raise SourceError(f"There is no file {path}.")
    spec = importlib.util.spec_from_file_location(
        path.stem, path, loader=_Uncached(path.stem, str(path))
    )
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} can't be read as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    # Python resolves annotations that are strings in `sys.modules`, by the module's name.
    sys.modules[spec.name] = module
    _run_file(lambda: spec.loader.exec_module(module), str(path))  # type: ignore[union-attr]
    return module


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    found: list[ModuleType] = []
    _run_file(lambda: found.append(importlib.import_module(name)), name)
    return found[0]


def _run_file(load: Callable[[], object], source: str) -> None:
    try:
        # Output that the file prints must not mix with the command's result on stdout.
        with contextlib.redirect_stdout(sys.stderr):
            load()
    except (Exception, SystemExit) as error:
        # The file is the user's code. Its error is shown without the frames of this package.
        hint = _error_place(error) or _module_hint(error, source)
        raise SourceError(f"{source} can't be loaded: {describe_exception(error)}{hint}") from error


def _module_hint(error: BaseException, source: str) -> str:
    """Advice for a name that is not a module: what the user may have meant."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    if "=" in source:
        return f". An argument is given as --arg {source}."
    return ". A SOURCE is a file such as tools.py, a module or a URL; a tool is named before it."


def _error_place(error: BaseException) -> str:
    """The file and line in the user's code that raised, if known."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename][1:]
    own = [frame for frame in own if frame.filename != __file__]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
