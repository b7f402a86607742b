"""One API: its document, its address, its credentials and its connections."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from wieldy.core.errors import ServiceError
from wieldy.core.network.http_client import Client, HttpRequest
from wieldy.core.secrets.secret import Secret

from .body import write_body
from .http_response import accepted_types, read_response
from .operation import TEMPLATE, Operation
from .operation_arguments import Layout, named_arguments
from .security import Credentials
from .server_urls import ServerUrls
from .style import header_text, in_cookie, in_header, in_path, in_query

MAX_RESPONSE = 20_000_000
_PATH_SAFE = "/:@!$&'()*+,;=~-._%"


class Service:
    """The parts that all operations of a document share."""

    def __init__(self, servers: ServerUrls, credentials: Credentials, client: Client) -> None:
        self.servers = servers
        self.credentials = credentials
        self.client = client


class ServiceEndpoint:
    """An operation that can be called. Its arguments are computed on first use."""

    def __init__(self, service: Service, operation: Operation) -> None:
        self.service = service
        self.operation = operation
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The arguments, and where each of them goes."""
        # If two threads compute it at once, they get the same result.
        if self._layout is None:
            self._layout = Layout(self.operation)
        return self._layout

    @property
    def input_schema(self) -> "EndpointSchema":
        """The schema of the operation's arguments, computed when it is called."""
        return EndpointSchema(self)

    def request(self, values: Mapping[str, Any]) -> HttpRequest:
        """The request for these arguments; `ValueError` if they can't be sent."""
        query: list[tuple[str, str]] = []
        cookies: list[tuple[str, str]] = []
        headers = {"Accept": accepted_types(self.operation)}
        steps: dict[str, str] = {}
        for parameter in self.layout.parameters:
            value = values.get(parameter.argument)
            if value is None:
                continue
            if parameter.place == "path":
                steps[parameter.name] = in_path(parameter, value)
            elif parameter.place == "query":
                query += in_query(parameter, value)
            elif parameter.place == "header":
                headers[parameter.name] = in_header(parameter, value)
            else:
                cookies += in_cookie(parameter, value)
        body = self.layout.body
        written = write_body(body, values) if body is not None else None
        if written is not None:
            headers["Content-Type"] = header_text("Content-Type", written[1])
        private = self._add_credentials(query, cookies)
        url = self.service.servers.address(self.operation) + self._write_path(steps)
        if query:
            url += "?" + "&".join(f"{name}={text}" for name, text in query)
        content = None if written is None else written[0]
        private = {name: value for name, value in private.items() if value}
        public = {
            name: v for name, v in headers.items() if name.lower() not in _lower_names(private)
        }
        return HttpRequest(self.operation.method, url, public, content, private)

    def _add_credentials(
        self, query: list[tuple[str, str]], cookies: list[tuple[str, str]]
    ) -> dict[str, str]:
        """Add the credentials to the query and cookies; returns the headers with credentials."""
        private = self.service.credentials.headers()
        for place, name, value in self.service.credentials.for_operation(self.operation):
            if place == "query":
                # A value of the same name from the model is replaced.
                query[:] = [pair for pair in query if pair[0] != quote(name, safe="[]$")]
                query.append((quote(name, safe="[]$"), quote(value, safe="")))
            elif place == "cookie":
                cookies.append((quote(name, safe=""), quote(value, safe="")))
            else:
                private[name] = value
        if cookies:
            private["Cookie"] = "; ".join(f"{name}={text}" for name, text in cookies)
        return private

    def _write_path(self, steps: Mapping[str, str]) -> str:
        pieces = []
        for number, piece in enumerate(TEMPLATE.split(self.operation.path)):
            if number % 2 == 0:
                pieces.append(quote(piece, safe=_PATH_SAFE))
            elif piece in steps:
                pieces.append(steps[piece])
            else:
                raise ValueError(f"{piece}: the path needs it")
        path = "".join(pieces)
        if any(step in (".", "..") for step in path.split("/")):
            raise ValueError("the path would have a step . or ..")
        return path if path[:1] == "/" else f"/{path}"


class EndpointSchema:
    """The input schema of an operation, and before it is computed, the names in it."""

    __slots__ = ("_endpoint",)

    def __init__(self, endpoint: ServiceEndpoint) -> None:
        self._endpoint = endpoint

    def __call__(self) -> dict[str, Any]:
        return self._endpoint.layout.schema

    def parameter_names(self) -> list[str]:
        """The names of parameters and of fields of the body, as the document writes them."""
        return named_arguments(self._endpoint.operation)


async def call_operation(
    endpoint: ServiceEndpoint, secrets: tuple[Secret, ...], /, **values: Any
) -> Any:
    """Call an operation. Its secrets are registered, so that they are masked everywhere."""
    service = endpoint.service
    try:
        request = endpoint.request(values)
    except ValueError as error:
        # A `ServiceError` is not retried, and retrying would not help here.
        raise ServiceError(f"{endpoint.operation.title}: not sent: {error}") from error
    response = await service.client.send(request, MAX_RESPONSE)
    hint = service.credentials.missing(endpoint.operation)
    return read_response(endpoint.operation, response, hint)


def _lower_names(names: Mapping[str, Any]) -> set[str]:
    return {name.lower() for name in names}
