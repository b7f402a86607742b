"""`wieldy backup`, `wieldy restore` and `wieldy upgrade`."""

from pathlib import Path

from wieldy.cli import exits, screen
from wieldy.cli.store_choice import StoreChoice

_TOLD_EVERY = 100_000


def run_backup(choice: StoreChoice, path: Path, as_json: bool) -> int:
    """Copy the store into a file; returns the exit code."""

    async def copy() -> int:
        from wieldy.store.backup.store_backup import write_backup  # noqa: PLC0415 - loads SQLAlchemy

        async with choice.read() as box:
            rows = await write_backup(box.store, path, _tell_progress)
            _report("Copied", rows, path, box.store.address, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(copy()))


def run_restore(choice: StoreChoice, path: Path, as_json: bool) -> int:
    """Copy a backup into an empty store; returns the exit code."""

    async def copy() -> int:
        from wieldy.store.backup.store_restore import (  # noqa: PLC0415 - loads SQLAlchemy
            check_backup,
            restore_backup,
        )

        # A file that can't be used must not leave an empty store behind.
        await check_backup(path)
        async with choice.open(create=True) as box:
            rows = await restore_backup(box.store, path, _tell_progress)
            _report("Restored", rows, path, box.store.address, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(copy()))


def run_upgrade(choice: StoreChoice) -> int:
    """Bring the store up to date; returns the exit code."""

    async def upgrade() -> int:
        async with choice.open() as box:
            await box.store.opened()
            screen.show(f"{box.store.address} is up to date.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(upgrade()))


def _tell_progress(rows: int) -> None:
    if not rows % _TOLD_EVERY:
        screen.say(f"{rows:,} rows …")


def _report(done: str, rows: int, path: Path, address: str, as_json: bool) -> None:
    if as_json:
        screen.put({"file": str(path), "store": address, "rows": rows})
        return
    copied = f"{done} {rows:,} row{'s' * (rows != 1)}"
    source = f"of {address} into {path}" if done == "Copied" else f"from {path} into {address}"
    screen.show(f"{copied} {source}.")
