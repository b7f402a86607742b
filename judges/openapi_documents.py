"""Import every document of two packages, describe all of it, and call some of GitHub's.

Two more documents, which are larger or refer to themselves more, are added and described in part.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import perf_counter
from typing import Any

import jsonschema_rs

from wieldy import DocumentError, Status, Tool, Toolbox

PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
GITHUB_OPERATIONS = 1223
LARGE = {"stripe.com.json": 452, "microsoft.com/graph.json": 11422}
CALLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("repos_get", {"owner": "a", "repo": "b"}, "GET", "/repos/a/b"),
    (
        "issues_list_for_repo",
        {"owner": "a", "repo": "b", "state": "open", "labels": "x,y", "per_page": "5"},
        "GET",
        "/repos/a/b/issues?state=open&labels=x%2Cy&per_page=5",
    ),
    (
        "repos_get_content",
        {"owner": "a", "repo": "b", "path": "src/a b.py", "ref": "feature/x"},
        "GET",
        "/repos/a/b/contents/src%2Fa%20b.py?ref=feature%2Fx",
    ),
    (
        "issues_create",
        {"owner": "a", "repo": "b", "title": "t", "labels": ["l"]},
        "POST",
        "/repos/a/b/issues",
    ),
    ("markdown_render_raw", {"body": "# hi"}, "POST", "/markdown/raw"),
    (
        "gists_update",
        {"gist_id": "1", "body": {"files": {"a.txt": {"content": "x"}}}},
        "PATCH",
        "/gists/1",
    ),
    ("activity_star_repo_for_authenticated_user", {"owner": "a", "repo": "b"}, "PUT",
     "/user/starred/a/b"),
    ("repos_delete", {"owner": "a", "repo": "b"}, "DELETE", "/repos/a/b"),
]  # fmt: skip


class Echo(BaseHTTPRequestHandler):
    """Tells what it was asked."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        told = {"method": self.command, "target": self.path, "who": self.headers["authorization"]}
        content = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


async def described(path: Path) -> tuple[Toolbox, list[Tool]]:
    """All that can be asked of a document, asked."""
    box = Toolbox()
    tools = await box.add_openapi(path)
    for tool in tools:
        for schema in (tool.input_schema, tool.output_schema or {}):
            jsonschema_rs.validator_for(schema)
    for provider in PROVIDERS:
        for strict in (False, True):
            shown = box.schemas(provider, strict)
            assert len(shown) == len(tools), f"{provider}: {len(shown)} of {len(tools)} described"
    return box, tools


def example_files(folder: Path) -> list[Path]:
    found = folder.glob("[23].*/*/**/*")
    return sorted(each for each in found if each.suffix in (".json", ".yaml"))


async def judge_examples(folder: Path, fail: Callable[[str], None]) -> None:
    files = example_files(folder)
    count = 0
    for path in files:
        name = path.relative_to(folder)
        try:
            _, tools = await described(path)
            count += len(tools)
            if name.parts[0] == "2.0":
                fail(f"{name}: Swagger 2.0 was taken for OpenAPI")
        except DocumentError as error:
            if name.parts[0] != "2.0" or "Swagger 2.0" not in str(error):
                fail(f"{name}: {error}")
        except Exception as error:
            fail(f"{name}: {type(error).__name__}: {error}")
    if len(files) < 100:
        fail(f"only {len(files)} example documents were found")
    print(f"{len(files)} example documents, {count:,} operations")


async def judge_github(folder: Path, fail: Callable[[str], None]) -> None:
    path = folder / "api.github.com.json"
    parsed, taken = [], []
    for _ in range(3):
        started = perf_counter()
        json.loads(path.read_bytes())
        parsed.append(perf_counter() - started)
        started = perf_counter()
        await Toolbox().add_openapi(path)
        taken.append(perf_counter() - started)
    ratio = min(taken) / min(parsed)
    box, tools = await described(path)
    print(f"GitHub: {len(tools):,} operations, added in {ratio:.1f} times json.loads")
    if len(tools) != GITHUB_OPERATIONS:
        fail(f"GitHub: {len(tools)} operations, not {GITHUB_OPERATIONS}")
    await box.close()


async def judge_large(folder: Path, fail: Callable[[str], None]) -> None:
    for name, count in LARGE.items():
        async with Toolbox() as box:
            started = perf_counter()
            tools = await box.add_openapi(folder / name, base_url="https://api.example.com")
            seconds = perf_counter() - started
            if len(tools) != count:
                fail(f"{name}: {len(tools)} operations, not {count}")
            for tool in tools[:: count // 50]:
                outcome = await box.call(tool.name, {"no such argument": [{}]})
                if outcome.status is not Status.ERROR:
                    fail(f"{name}: {tool.name}: {outcome}")
        print(f"{name}: {count:,} operations, added in {seconds:.1f} s")


async def judge_calls(folder: Path, fail: Callable[[str], None]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    async with Toolbox() as box:
        await box.add_openapi(folder / "api.github.com.json", base_url=url, auth="judge-token-1")
        for name, arguments, method, target in CALLS:
            outcome = await box.call(name, arguments)
            # What deletes waits for a person.
            if method == "DELETE":
                if outcome.status is not Status.PENDING:
                    fail(f"{name}: {outcome.status}, not pending")
                outcome = await box.approve(outcome.call.id, by="judge")
            expected = {"method": method, "target": target, "who": "Bearer judge-token-1"}
            if outcome.value != expected:
                fail(f"{name}: {outcome.value or outcome.error}, not {expected}")
    server.shutdown()
    print(f"{len(CALLS)} calls of GitHub's operations over HTTP")


async def main(modules: Path, directory: Path) -> int:
    failures: list[str] = []
    await judge_examples(modules / "@readme" / "oas-examples", failures.append)
    await judge_github(modules / "@octokit" / "openapi" / "generated", failures.append)
    await judge_calls(modules / "@octokit" / "openapi" / "generated", failures.append)
    await judge_large(directory, failures.append)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]))))
