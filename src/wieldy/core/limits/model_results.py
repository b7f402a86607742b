"""What models and clients read of outcomes: at most so much, and the rest by its handle."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from wieldy.core.call import Outcome
from wieldy.core.errors import describe_exception
from wieldy.core.registry import Registry

from .bounded_result import LargeResult, find_bound, find_large
from .handles import is_handle
from .kept_results import MAX_SESSION, UNTIL, KeptResults
from .off_loop import is_large, run_off_loop, start_off_loop

READING_TOOL = "artifact_read"
# Keeps the whole text of a result, and returns its handle.
Keep = Callable[[Outcome, str], Awaitable[str]]


class KeptText(Protocol):
    """The text of a large result, or a document."""

    @property
    def handle(self) -> str:
        """Its address."""

    @property
    def content(self) -> str:
        """Its text."""

    @property
    def untrusted(self) -> bool:
        """Whether it comes from outside."""


Open = Callable[[str, str | None], Awaitable[KeptText]]


class ModelResults:
    """The results of a toolbox as models and clients read them.

    Args:
        registry: The tools, which may have limits of their own.
        max_result: How many characters of one result are read; 0 for all.
        keep: Keeps what is left out; without it that is done in memory.
        open: Finds in a session what has been kept; without it that is done in memory.
    """

    def __init__(
        self,
        registry: Registry,
        max_result: int,
        keep: Keep | None = None,
        open: Open | None = None,
    ) -> None:
        check_max_result(max_result)
        self.max_result = max_result
        self._usual = find_bound(max_result)
        self._registry = registry
        self._keep = keep
        self._open = open
        self._memory = KeptResults()

    async def for_model(self, outcome: Outcome, max_result: int | None = None) -> Outcome:
        """Cut an outcome to what a model reads of it, and keep the rest.

        Every outcome goes this way before a model or a client of MCP gets it.

        Args:
            outcome: The outcome, which stays whole.
            max_result: The number of characters, if it is not the toolbox's. The tool's own limit
                counts before both.

        Returns:
            The same outcome if it is small enough, or another one whose content, value and error
            are within the bound. Its metadata has `cut`, and `spilled` is the handle of the rest.

        Example:
            `messages += render([await box.results.for_model(outcome)])`
        """
        tool = self._registry.find(outcome.call.tool)
        own = None if tool is None else tool.limits.max_result
        bound = self._usual
        if own is not None or max_result is not None:
            bound = find_bound(self.max_result if max_result is None else max_result, own)
        if bound is None:
            return outcome
        much = is_large((outcome.value, outcome._content))
        large = await run_off_loop(much, lambda: find_large(outcome, bound))
        return outcome if large is None else await self._cut_result(outcome, large)

    async def open(self, reference: str, session: str | None) -> KeptText:
        """Find what was kept for a session.

        Args:
            reference: A handle such as `artifact://id@version`, or an id.
            session: The session that may read it.

        Returns:
            It, with its whole text.

        Raises:
            LookupError: The session has nothing of this name.
        """
        if self._open is not None:
            return await self._open(reference, session)
        return self._memory.find(reference, session)

    async def _cut_result(self, outcome: Outcome, large: LargeResult) -> Outcome:
        if not large.is_cut:
            return large.cut("")
        try:
            handle, place = await self._keep_whole(outcome, await start_off_loop(large.whole_text))
        except Exception as error:
            # The whole would be too much, also where nobody can keep the rest.
            cut = large.cut("the rest could not be kept")
            cut.metadata["spill_error"] = describe_exception(error)
            return cut
        cut = large.cut(place)
        cut.metadata["spilled"] = handle
        return cut

    async def _keep_whole(self, outcome: Outcome, whole: str) -> tuple[str, str]:
        """The handle of the whole text, and a phrase that says where that is."""
        part, until = "the whole is", ""
        if self._keep is not None:
            handle = await self._keep(outcome, whole)
        else:
            handle, until = self._memory.keep(outcome, whole).handle, f", {UNTIL}"
            if len(whole) > MAX_SESSION:
                part = f"the first {MAX_SESSION:,} are"
        reads = is_handle(handle) and self._registry.find(READING_TOOL) is not None
        how = f"; {READING_TOOL} reads it" if reads else ""
        return handle, f"{part} at {handle}{until}{how}"


def check_max_result(max_result: int) -> None:
    """Raise `ValueError` unless this is a number of characters, or 0 for no bound."""
    if isinstance(max_result, bool) or not isinstance(max_result, int) or max_result < 0:
        raise ValueError(f"max_result is a whole number of 0 or more, not {max_result!r}.")
