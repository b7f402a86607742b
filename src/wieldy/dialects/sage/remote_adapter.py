"""A tool of an MCP server as a tool object."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from wieldy.core.call import Outcome
from wieldy.core.errors import ToolFailed, WieldyError
from wieldy.core.sync import blocking_border
from wieldy.toolbox import Toolbox, own_box


class RemoteMCPAdapter:
    """A name, a description, a schema and a `call`, behind which is a real MCP server.

    The connection is made at the first call and kept; `close` ends it.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        server_cmd: Sequence[str] | str | None = None,
        url: str | None = None,
    ) -> None:
        if (server_cmd is None) == (url is None):
            raise ValueError("give either server_cmd, the command of a server, or its url")
        self.name = name
        self.description = description
        self.input_schema = dict(input_schema)
        self._source = url if server_cmd is None else server_cmd
        self._box: Toolbox | None = None
        self._lock = threading.Lock()

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the server's tool; what goes wrong there is a `RuntimeError`."""
        try:
            box = self._connected_box()
        except WieldyError as error:
            raise RuntimeError(f"{self.name}: {error}") from error
        outcome = box.call_sync(self.name, arguments)
        if not outcome.ok:
            raise RuntimeError(f"{self.name}: {_error_text(outcome)}") from outcome.error
        return outcome.value

    def close(self) -> None:
        """End the connection; the next call makes it anew."""
        with self._lock:
            box, self._box = self._box, None
            if box is not None:
                blocking_border().wait(lambda home: box.close())

    def _connected_box(self) -> Toolbox:
        with self._lock:
            if self._box is None:
                self._box = blocking_border().wait(lambda home: self._open_box())
            return self._box

    async def _open_box(self) -> Toolbox:
        # The registry holds arguments to the schema where it is asked to; the server always does.
        box = own_box(validation="describe")
        try:
            # SAGE has no approvals.
            await box.add_mcp(self._source, allow=[self.name], permission="auto")
        except BaseException:
            await box.close()
            raise
        return box


def _error_text(outcome: Outcome) -> str:
    error = outcome.error
    return str(error.original) if isinstance(error, ToolFailed) else outcome.text
