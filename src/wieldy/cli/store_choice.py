"""Choose the store of a command: a named one, that of a source, or the default one."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from wieldy.toolbox import Toolbox

from . import environment
from .extra_imports import import_extra
from .module import SourceError, load_box
from .sources import has_store, is_gateway, is_python, uses_store

IN_MEMORY = (
    "The toolbox of this source keeps its calls in memory, so nothing is recorded. "
    'Give it a store: Toolbox(store="sqlite:///wieldy.db").'
)


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The store that the user named, by its address or by a source that uses it."""

    url: str | None = None
    sources: tuple[str, ...] = ()

    def read(self) -> Toolbox:
        """The same for a command that only reads: a store of an earlier version stays as it is."""
        box = self.open()
        box.store.leave_as_is()
        return box

    def open(self, create: bool = False) -> Toolbox:
        """A toolbox over the store. For a Python source it is the source's own toolbox.

        With `create`, a store that does not exist yet is created.
        """
        if is_gateway(self.sources):
            find_store = import_extra("wieldy.cli.gateway", "find_store", "server")
            if self.url is not None:
                raise SourceError("Give --store or --source: a gateway's file names its store.")
            return environment.store_box(find_store(Path(self.sources[0])), create)
        loaded = [load_box(source)[0] for source in self.sources if is_python(source)]
        if not loaded:
            return environment.store_box(self.url, create)
        boxes = [box for box in loaded if isinstance(box, Toolbox)]
        if self.url is not None and not (boxes and uses_store(boxes[0], self.url)):
            raise SourceError("Give --store or --source: a Python source has a store of its own.")
        if not boxes:
            raise SourceError(
                f"{self.sources[0]} is a view of a toolbox. Name the toolbox, as FILE:NAME."
            )
        if not has_store(boxes[0]):
            raise SourceError(IN_MEMORY)
        if not create:
            environment.check_file(boxes[0].store.address)
        return boxes[0]

    def command(self, words: str) -> str:
        """A command line that works on the same store, for use in a message."""
        named = "".join(f" --source {shlex.quote(source)}" for source in self.sources)
        if self.url is None:
            return f"`wieldy {words}{named}`"
        from wieldy.store.databases.database import shown_address  # noqa: PLC0415 - loads SQLAlchemy

        return f"`wieldy {words}{named} --store {shlex.quote(shown_address(self.url))}`"
