"""The commands `backup`, `restore` and `upgrade`."""

from pathlib import Path
from typing import Annotated

import typer

from .command_options import AsJson, Store, StoreSource
from .commands.backup import run_backup, run_restore, run_upgrade
from .store_choice import StoreChoice

BackupPath = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file of the backup.", show_default=False)
]


def backup(
    path: BackupPath, store: Store = None, source: StoreSource = None, as_json: AsJson = False
) -> None:
    """Copy a store into a new file, while others use the store.

    The file has the store as it was at one moment, and only its owner may read it.
    A file that exists is not replaced.
    """
    raise typer.Exit(run_backup(StoreChoice(store, tuple(source or ())), path, as_json))


def restore(
    path: BackupPath, store: Store = None, source: StoreSource = None, as_json: AsJson = False
) -> None:
    """Copy a backup into an empty store, of either kind, all of it or nothing.

    Exits with 2 and changes nothing if the file is cut, changed or too new, or if the
    store is not empty.
    """
    raise typer.Exit(run_restore(StoreChoice(store, tuple(source or ())), path, as_json))


def upgrade(store: Store = None, source: StoreSource = None) -> None:
    """Bring a store that an earlier version made up to date.

    Commands that write to it, and programs, do that themselves. Commands that only read
    leave it as it is.
    """
    raise typer.Exit(run_upgrade(StoreChoice(store, tuple(source or ()))))
