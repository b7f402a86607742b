"""A tool of an MCP server as a tool object."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from wieldy.core.sync import border
from wieldy.toolbox import Toolbox


class RemoteMCPAdapter:
    """A name, a description, a schema and a `call`, behind which is a real MCP server.

    The connection is made at the first call and kept; `close` ends it.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        server_cmd: Sequence[str] | None = None,
        url: str | None = None,
    ) -> None:
        if (server_cmd is None) == (url is None):
            raise ValueError("give either server_cmd, the command of a server, or its url")
        self.name = name
        self.description = description
        self.input_schema = dict(input_schema)
        self._source = url if server_cmd is None else list(server_cmd)
        self._box = Toolbox(validation="describe")
        self._lock = threading.Lock()

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the server's tool; what goes wrong there is a `RuntimeError`."""
        try:
            self._connect()
        except Exception as error:
            raise RuntimeError(f"{self.name}: {error}") from error
        outcome = self._box.call_sync(self.name, arguments)
        if not outcome.ok:
            raise RuntimeError(outcome.text) from outcome.error
        return outcome.value

    def close(self) -> None:
        """End the connection; the next call makes it anew."""
        with self._lock:
            border().wait(lambda home: self._box.close())

    def _connect(self) -> None:
        with self._lock:
            if not self._box.mcp:
                border().wait(lambda home: self._box.add_mcp(self._source, allow=[self.name]))
