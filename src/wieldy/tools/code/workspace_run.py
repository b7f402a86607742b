"""Run a program in the working folder of a call, and give what came of it."""

import asyncio
from collections.abc import Mapping, Sequence

from wieldy.core.context import Context

from .code_result import CodeResult
from .picture_files import Snapshot, list_pictures, read_new_pictures
from .sandbox import Sandbox
from .sandbox_errors import CodeStopped
from .sandbox_limits import ProgramEnd
from .workspaces import OpenFolder, Workspace


async def run_in_workspace(
    sandbox: Sandbox,
    workspace: Workspace,
    words: Sequence[str],
    context: Context,
    scripts: Mapping[str, bytes] | None = None,
) -> CodeResult:
    """Run a program to its end; what it prints is shown while it runs.

    Args:
        sandbox: Where it runs.
        workspace: Where the working folder comes from.
        words: The program and its arguments, as `Sandbox.run` takes them.
        context: The call that it runs for.
        scripts: Files that it can read, by name.

    Returns:
        Its output, its exit code, and the pictures that it left in the working folder.

    Raises:
        CodeStopped: A limit ended it.
        SandboxUnavailable: The system refused to make the sandbox.
    """
    context.report(sandbox=sandbox.kind)
    folder = await asyncio.to_thread(workspace.open_folder, context.scope)
    if folder.untrusted:
        # Nobody knows what the program reads, so all that it prints counts as read there.
        context.mark_untrusted()
    before = await asyncio.to_thread(list_pictures, folder.path)

    async def show(text: str) -> None:
        await context.emit(text)

    try:
        end = await sandbox.run(
            words, folder.path, writable=folder.writable, scripts=scripts, on_output=show
        )
    except BaseException:
        await asyncio.to_thread(workspace.keep_changes, folder)
        raise
    finally:
        # A file may have come while the program ran, which could then read it.
        if not folder.untrusted and await asyncio.to_thread(workspace.shows_untrusted, folder):
            context.mark_untrusted()
    unkept = await asyncio.to_thread(workspace.keep_changes, folder)
    _report_end(sandbox, end, context)
    return await asyncio.to_thread(_conclude, end, folder, before, unkept)


def _report_end(sandbox: Sandbox, end: ProgramEnd, context: Context) -> None:
    """Note the facts of a program; `CodeStopped` for one that was ended."""
    context.report(exit_code=end.exit_code, cpu_ms=end.cpu_ms, peak_bytes=end.peak_bytes)
    if end.stopped is not None:
        context.report(stopped=end.stopped)
        limit = sandbox.limits.describe(end.stopped)
        raise CodeStopped(end.stopped, limit, end.stdout + end.stderr)


def _conclude(
    end: ProgramEnd, folder: OpenFolder, before: Snapshot, unkept: Sequence[str]
) -> CodeResult:
    pictures = read_new_pictures(folder.path, before)
    notes = (*pictures.notes, *unkept)
    return CodeResult(end.exit_code, end.stdout, end.stderr, pictures.images, notes)
