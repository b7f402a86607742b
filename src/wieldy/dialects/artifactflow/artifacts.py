"""Versioned documents of a session, and the tools that change them."""

import itertools
import tempfile
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wieldy.core.errors import WieldyError
from wieldy.toolbox import Toolbox, own_box

from .tool import BaseTool, ToolParameter, ToolResult

if TYPE_CHECKING:
    # The database library is slow to import, so the first manager loads it.
    from wieldy.store.artifacts.artifacts import Artifacts


# The session that a task works in, by the number of the manager.
_sessions: ContextVar[Mapping[int, str | None]] = ContextVar("wieldy_artifacts")
_numbers = itertools.count()


class ArtifactManager:
    """The artifacts of one session at a time, in each task.

    `store` is the address of a database, or a toolbox that has one. Without it they
    are kept in a temporary file that goes away with the manager.
    """

    def __init__(self, store: str | Toolbox | None = None) -> None:
        self._number = next(_numbers)
        self._folder = None
        if store is None:
            self._folder = tempfile.TemporaryDirectory(prefix="wieldy-artifacts-")
            store = f"sqlite:///{Path(self._folder.name) / 'artifacts.db'}"
        self._own = None if isinstance(store, Toolbox) else own_box(store=store)
        self._artifacts = (store if isinstance(store, Toolbox) else self._own_toolbox()).artifacts

    @property
    def artifacts(self) -> "Artifacts":
        """All artifacts of the store, of every session."""
        return self._artifacts

    @property
    def session(self) -> str | None:
        """The session that this task works in."""
        return _sessions.get({}).get(self._number)

    def set_session(self, session_id: str | None) -> None:
        """Work on the artifacts of this session from now on, in this task.

        Tasks that are started afterwards begin with the same session. Other tasks, such as
        those that serve other users at the same time, keep theirs.
        """
        _sessions.set({**_sessions.get({}), self._number: session_id})

    async def close(self) -> None:
        """Close the database, if it belongs to the manager."""
        if self._own is not None:
            await self._own.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _own_toolbox(self) -> Toolbox:
        assert self._own is not None
        return self._own


class _ArtifactTool(BaseTool):
    """A tool that uses a manager; an error becomes an unsuccessful result."""

    called: str
    says: str
    takes: tuple[ToolParameter, ...]

    def __init__(self, manager: ArtifactManager) -> None:
        super().__init__(self.called, self.says)
        self._manager = manager

    def get_parameters(self) -> list[ToolParameter]:
        """What the tool takes."""
        return list(self.takes)

    async def execute(self, **params: Any) -> ToolResult:
        """Do it."""
        try:
            return ToolResult(True, data=await self._run_tool(**params))
        except (WieldyError, ValueError) as error:
            return ToolResult(False, error=str(error))

    async def _run_tool(self, **params: Any) -> dict[str, Any]:
        raise NotImplementedError


_ID = ToolParameter("id", "string", "The artifact's id.")
_CONTENT = ToolParameter("content", "string", "The whole text.")


class CreateArtifactTool(_ArtifactTool):
    """`create_artifact`."""

    called = "create_artifact"
    says = "Create a new artifact: a document that is kept with all its versions."
    takes = (
        _ID,
        ToolParameter("content_type", "string", "The kind of text.", False, "markdown"),
        ToolParameter("title", "string", "The artifact's title."),
        _CONTENT,
    )

    async def _run_tool(self, **params: Any) -> dict[str, Any]:
        change = await self._manager.artifacts.create(
            params["id"],
            params["content"],
            params["title"],
            params["content_type"],
            session=self._manager.session,
        )
        return {"id": change.id, "version": change.version, "kind": change.kind}


class ReadArtifactTool(_ArtifactTool):
    """`read_artifact`."""

    called = "read_artifact"
    says = "Read an artifact, as it is now or as an earlier version was."
    takes = (_ID, ToolParameter("version", "integer", "The version, or the newest.", False))

    async def _run_tool(self, **params: Any) -> dict[str, Any]:
        found = await self._manager.artifacts.read(
            params["id"], params.get("version"), session=self._manager.session
        )
        names = ("id", "version", "title", "content_type", "content")
        return {name: getattr(found, name) for name in names}


class UpdateArtifactTool(_ArtifactTool):
    """`update_artifact`."""

    called = "update_artifact"
    says = "Replace one passage of an artifact; a passage that is nearly right is found too."
    takes = (
        _ID,
        ToolParameter("old_str", "string", "The passage to replace; it must stand there once."),
        ToolParameter("new_str", "string", "What takes its place."),
    )

    async def _run_tool(self, **params: Any) -> dict[str, Any]:
        change = await self._manager.artifacts.update(
            params["id"], params["old_str"], params["new_str"], session=self._manager.session
        )
        names = ("id", "version", "kind", "similarity", "matched")
        return {name: getattr(change, name) for name in names}


class RewriteArtifactTool(_ArtifactTool):
    """`rewrite_artifact`."""

    called = "rewrite_artifact"
    says = "Replace the whole text of an artifact."
    takes = (_ID, _CONTENT)

    async def _run_tool(self, **params: Any) -> dict[str, Any]:
        change = await self._manager.artifacts.rewrite(
            params["id"], params["content"], session=self._manager.session
        )
        return {"id": change.id, "version": change.version, "kind": change.kind}


def create_artifact_tools(manager: ArtifactManager) -> list[BaseTool]:
    """The tools that create, read, update and rewrite a manager's artifacts."""
    kinds = (CreateArtifactTool, ReadArtifactTool, UpdateArtifactTool, RewriteArtifactTool)
    return [kind(manager) for kind in kinds]
