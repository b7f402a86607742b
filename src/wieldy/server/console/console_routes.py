"""The console's pages and the files that they are made of, with the headers that keep them safe."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ASSET_PREFIX = "/console/"
_INDEX = "index.html"
# The first part of each address that a person can open or reload.
_PAGES = (
    "artifacts",
    "calls",
    "inbox",
    "plots",
    "rules",
    "runs",
    "servers",
    "sign-in",
    "tools",
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob: data:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    # A browser that knows this refuses to read any text as HTML.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # A browser asks again whether a file is still the same, so that an upgrade is seen at once.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that the browser gets."""

    content: bytes
    packed: bytes
    media_type: str
    tag: str

    def answer(self, request: Request) -> Response:
        """The file, or the word that the browser's copy is still good."""
        # The tag is of what the file says, however it is sent.
        headers = {**HEADERS, "etag": f"W/{self.tag}"}
        held = request.headers.get("if-none-match", "")
        if self.tag in (each.strip().removeprefix("W/") for each in held.split(",")):
            return Response(status_code=304, headers=headers)
        if not _takes_packed(request.headers.get("accept-encoding", "")):
            return Response(self.content, headers=headers, media_type=self.media_type)
        headers["content-encoding"] = "gzip"
        return Response(self.packed, headers=headers, media_type=self.media_type)


def _takes_packed(accepted: str) -> bool:
    """Whether a browser takes gzip; one that names it with a weight of zero does not."""
    for each in accepted.split(","):
        name, _, weight = each.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


def read_assets() -> dict[str, Asset]:
    """The files of the console by name."""
    found = {}
    for each in files(__package__).joinpath("assets").iterdir():
        media_type = _TYPES.get("." + each.name.rpartition(".")[2])
        if media_type is not None:
            content = each.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            packed = gzip.compress(content, mtime=0)
            found[each.name] = Asset(content, packed, media_type, tag)
    return found


def console_routes() -> list[Route]:
    """The routes of the console: each page is the same document, and the browser does the rest."""
    assets = read_assets()

    async def show_page(request: Request) -> Response:
        return assets[_INDEX].answer(request)

    pages = [Route(f"/{page}{rest}", show_page) for page in _PAGES for rest in ("", "/{rest:path}")]
    return [Route("/", show_page), *pages, _asset_route(assets)]


def is_console_path(path: str) -> bool:
    """Whether a path belongs to the console, whose pages say nothing to those who are not known."""
    return path in ("/", "/sign-out") or path.startswith(ASSET_PREFIX) or _is_page(path)


def _is_page(path: str) -> bool:
    return path.split("/", 2)[1:2] != [] and path.split("/", 2)[1] in _PAGES


def _asset_route(assets: Mapping[str, Asset]) -> Route:
    async def show_asset(request: Request) -> Response:
        asset = assets.get(request.path_params["asset"])
        if asset is None:
            return Response("There is no such file.", 404, HEADERS, "text/plain")
        return asset.answer(request)

    return Route(ASSET_PREFIX + "{asset:path}", show_asset)
