"""Tell OpenAPI documents from `mcpServers` files and MCP endpoints by their content."""

import re
from pathlib import Path
from typing import Any

from wieldy.core.bounded_json import parse_json
from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach

from .module import SourceError

_SECONDS = 15.0
_MAX_SIZE = 32 * 1024 * 1024
_YAML = re.compile(r"""^["']?(?:openapi|swagger)["']?\s*:""", re.MULTILINE)


def kind_of_file(path: Path) -> str:
    """`openapi` or `mcp`; `SourceError` if the file is neither."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SourceError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} can't be read: {error}") from error
    if _is_openapi(text):
        return "openapi"
    data = _parse_object(text)
    if any(isinstance(data.get(key), dict) for key in ("mcpServers", "servers")):
        return "mcp"
    raise SourceError(
        f'{path} is neither an mcpServers file (JSON with "mcpServers" or "servers") '
        'nor an OpenAPI document (JSON or YAML with "openapi").'
    )


async def kind_of_address(url: str) -> str:
    """`openapi` if the URL answers with an OpenAPI document, else `mcp`."""
    try:
        # httpx2 is part of the extra `openapi`. Without it no document could be used anyway.
        import httpx2  # noqa: PLC0415

        from wieldy.core.network.guarded_transport import GuardedTransport  # noqa: PLC0415
    except ImportError:
        return "mcp"
    reach = Reach()
    accept = {"accept": "application/json, application/yaml, text/yaml, */*;q=0.5"}
    try:
        reach.allow(httpx2.URL(url).raw_host.decode("ascii"))
        async with (
            httpx2.AsyncClient(
                timeout=_SECONDS,
                follow_redirects=True,
                headers=accept,
                transport=GuardedTransport(reach),
            ) as client,
            client.stream("GET", url) as response,
        ):
            streams = "event-stream" in response.headers.get("content-type", "")
            if streams or not response.is_success:
                return "mcp"
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_SIZE:
                    raise SourceError(f"The document at {url} is larger than {_MAX_SIZE:,} bytes.")
    except (httpx2.HTTPError, httpx2.InvalidURL, ServiceError) as error:
        raise SourceError(f"{url} can't be reached: {error or type(error).__name__}") from error
    return "openapi" if _is_openapi(body.decode("utf-8", "replace")) else "mcp"


def _is_openapi(text: str) -> bool:
    data = _parse_object(text)
    return "openapi" in data or "swagger" in data or (not data and _YAML.search(text) is not None)


def _parse_object(text: str) -> dict[str, Any]:
    try:
        data = parse_json(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
