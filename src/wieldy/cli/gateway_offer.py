"""How the clients of a gateway get at its tools: all of them, by search, or in programs."""

import fnmatch
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wieldy.core.call import Scope
from wieldy.core.discovery.session_listing import LOAD_TOOL, SEARCH_TOOL
from wieldy.core.errors import WieldyError
from wieldy.core.tool import Tool
from wieldy.server.config.gateway_file import CodeModeTable, GatewayFile, ViewTable
from wieldy.toolbox import Toolbox
from wieldy.tools.tool_search import add_search_tools
from wieldy.view import View

from .extra_imports import import_extra
from .module import SourceError
from .sources import LoadedSources

Predicate = Callable[[Tool, Scope], bool]
_FINDING = (SEARCH_TOOL, LOAD_TOOL)
_CODE_TOOL = "run_code"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 40


def add_own_tools(file: GatewayFile, folder: Path, box: Toolbox) -> None:
    """Add the tools with which clients find other tools, and read skills."""
    place = "search"
    try:
        if file.uses_search:
            search = file.search_settings
            add_search_tools(box, search.budget, search.always)
        if file.skills is not None:
            place = "skills"
            # Skills are read and run with modules that other gateways don't need.
            from wieldy.tools.skills.skill_tools import add_skills  # noqa: PLC0415

            place_of_skills = folder / Path(file.skills.folder).expanduser()
            add_skills(box, place_of_skills, scripts=file.skills.scripts)
    except (ValueError, WieldyError, ImportError) as error:
        raise SourceError(f"{place}: {error}") from error


class GatewayOffer:
    """What clients see, by the views of the file.

    Args:
        file: What the file says.
        found: The tools; what is offered without a view is changed there.

    Attributes:
        views: The views by name, changed in place.

    Raises:
        SourceError: The tool that runs programs can't be added.
    """

    def __init__(self, file: GatewayFile, found: LoadedSources) -> None:
        self._box = found.toolbox
        self._all = found.offer
        self._settings = file.code_mode or CodeModeTable()
        # The tool that runs programs of each view that has one.
        self._programs: dict[str, tuple[ViewTable, str]] = {}
        self._program_tools: set[str] = set()
        self.views: dict[str, View] = {}
        self.change_views(file)
        if file.code_mode is not None:
            found.offer = self._in_programs(_shows_all, _CODE_TOOL)
        else:
            found.offer = self._listed(_shows_all, file, file.search is not None)

    def change_views(self, file: GatewayFile) -> None:
        """Make the views that a file defines."""
        for name, (table, tool) in tuple(self._programs.items()):
            if file.views.get(name) != table:
                del self._programs[name]
                self._box.remove(tool)
        self.views.clear()
        for name, table in file.views.items():
            self.views[name] = self._make_view(name, table, file)

    def _make_view(self, name: str, table: ViewTable, file: GatewayFile) -> View:
        fits = _make_predicate(table)
        if not table.code_mode:
            searches = file.search is not None if table.search is None else table.search
            return self._listed(fits, file, searches)
        tool = f"{_CODE_TOOL}_{_NO_NAME.sub('_', name)[:_MAX_NAME]}"
        view = self._in_programs(fits, tool, name in self._programs)
        self._programs[name] = table, tool
        return view

    def _listed(self, fits: Predicate, file: GatewayFile, searches: bool) -> View:
        """A view whose clients find tools by search, or are shown all of them."""

        def is_shown(tool: Tool, scope: Scope) -> bool:
            if tool.name in self._program_tools:
                return False
            if tool.name in _FINDING and file.uses_search:
                # They find what is in the view of their caller, and nothing else.
                return searches
            return fits(tool, scope)

        view = self._all.view(where=is_shown)
        view.lists_all = not searches
        view.whole = self._all.whole and fits is _shows_all
        return view

    def _in_programs(self, fits: Predicate, name: str, is_there: bool = False) -> View:
        """A view of the tool that runs programs with these functions, and of what is always shown.

        `is_there` says that the tool was added before.
        """
        always = compile_patterns(self._settings.always)

        def is_function(tool: Tool, scope: Scope) -> bool:
            own = tool.name in self._program_tools or tool.name in _FINDING
            return not own and not always.match(tool.name) and fits(tool, scope)

        if not is_there:
            add_code_mode: Any = import_extra("wieldy.tools.code_mode", "add_code_mode", "server")
            self._program_tools.add(name)
            settings = self._settings.model_dump(exclude={"always"})
            try:
                add_code_mode(self._all.view(where=is_function), name=name, **settings)
            except (ValueError, WieldyError, ImportError) as error:
                raise SourceError(f"code_mode: {error}") from error
        return self._all.view(
            where=lambda tool, scope: (
                tool.name == name or (bool(always.match(tool.name)) and fits(tool, scope))
            )
        )


def _shows_all(tool: Tool, scope: Scope) -> bool:
    return True


def _make_predicate(table: ViewTable) -> Predicate:
    """What says which tools are in a view: those that fit each key."""
    shown = None if table.tools is None else compile_patterns(table.tools)
    hidden, sources = compile_patterns(table.hide), compile_patterns(table.sources or ["*"])

    def is_shown(tool: Tool, scope: Scope) -> bool:
        if tool.source == "skills" and table.skills is not None:
            return table.skills
        if shown is not None and not shown.match(tool.name):
            return False
        if table.tags is not None and not set(table.tags) & set(tool.tags):
            return False
        if table.groups is not None and tool.group not in table.groups:
            return False
        if table.read_only is not None and bool(tool.read_only) is not table.read_only:
            return False
        return not hidden.match(tool.name) and sources.match(tool.source) is not None

    return is_shown


def compile_patterns(patterns: Sequence[str]) -> re.Pattern[str]:
    """One expression for what fits any of these patterns; without patterns nothing does."""
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")
