"""The routes of the API for an application."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import Field, RootModel
from starlette.routing import Route

from wieldy.mcp.serving.server import BoxServer
from wieldy.toolbox import Toolbox
from wieldy.view import View

from . import (
    argument_resource,
    artifact_resource,
    call_parts,
    call_resource,
    event_stream,
    identity_resource,
    pending_resource,
    plot_resource,
    rule_resource,
    run_resource,
    server_resource,
    session_resource,
    tool_resource,
    webhook_resource,
)
from .api_operations import (
    ApiBox,
    ApiOperation,
    ApiPath,
    Asked,
    SharedParts,
    operation,
    refuse_path,
)
from .openapi_document import PREFIX, make_document

_MODULES = (
    identity_resource,
    tool_resource,
    argument_resource,
    call_resource,
    call_parts,
    pending_resource,
    artifact_resource,
    session_resource,
    run_resource,
    server_resource,
    rule_resource,
    plot_resource,
    webhook_resource,
    event_stream,
)


class ApiDocument(RootModel[dict[str, Any]]):
    """An OpenAPI document."""

    root: dict[str, Any] = Field(description="OpenAPI 3.1.")


@operation("GET", "/openapi.json", ApiDocument, for_all=True)
async def get_document(asked: Asked) -> dict[str, Any]:
    """Read this document."""
    return make_document(OPERATIONS)


OPERATIONS: tuple[ApiOperation, ...] = (
    *(
        each
        for module in _MODULES
        for each in vars(module).values()
        # A module may use the operations of another.
        if isinstance(each, ApiOperation) and each.run.__module__ == module.__name__
    ),
    get_document,
)


class ServedApi:
    """The API of one served box: its routes, and how its streams end."""

    def __init__(self, server: BoxServer, shared: SharedParts | None = None) -> None:
        self.routes: list[Route] = []
        self._shared: ApiBox | None = None
        box = find_toolbox(server)
        if box is None:
            return
        self._shared = ApiBox(server, box, shared or SharedParts())
        paths: dict[str, dict[str, ApiOperation]] = {}
        for each in OPERATIONS:
            paths.setdefault(each.path, {})[each.method] = each
        # Ids may hold slashes, so that a path with something after the id has to come first.
        for path in sorted(paths, key=lambda path: -len(path)):
            anything = re.sub(r"{(\w+)}", r"{\1:path}", path)
            self.routes.append(Route(PREFIX + anything, ApiPath(self._shared, paths[path])))
        self.routes.append(Route(PREFIX + "/{rest:path}", refuse_path, methods=None))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen to calls, so that whoever looks at one later sees what it has shown."""
        shared = self._shared
        if shared is None or not shared.box.recorded:
            yield
            return
        hub = event_stream.start_hub(shared, shared.box.store)
        try:
            yield
        finally:
            hub.end()
            shared.hub = None

    def close_streams(self) -> None:
        """End the streams of events, so that the server can stop."""
        if self._shared is not None and self._shared.hub is not None:
            self._shared.hub.close()


def find_toolbox(server: BoxServer) -> Toolbox | None:
    """The toolbox behind what is served, or None if it is something else."""
    box: Any = server.box
    if isinstance(box, View):
        box = box.box
    return box if isinstance(box, Toolbox) else None
