"""Every operation against everybody who may come, and everything that may be sent."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.api.api_client import DOCUMENT, PEOPLE, ApiClient, api_of, make_box
from wieldy import Toolbox
from wieldy.server.api.api_operations import ApiOperation
from wieldy.server.api.api_routes import OPERATIONS

# What an operation is sent that it takes; those that are not here take an empty object.
BODIES: dict[str, dict[str, Any]] = {
    "make_call": {"tool": "add", "arguments": {"a": 1, "b": 2}},
    "check_arguments": {"tool": "add", "arguments": {"a": 1, "b": 2}},
    "explain_call": {"tool": "add", "arguments": {"a": 1, "b": 2}},
    "answer_call": {"answers": {"answer": "large"}},
    "make_rule": {"verdict": "ask", "pattern": "wipe"},
    "set_mode": {"mode": "ask"},
}
QUERIES = {"compare_artifact_versions": {"old": 1}, "stream_events": {"seconds": 0}}
# What somebody without any role may ask.
FOR_ALL = {"get_me", "get_document"}
PLAIN = [each for each in OPERATIONS if each.name != "stream_events"]
HOSTILE = (
    "\0",
    "../../etc/passwd",
    "a/b",
    "x" * 3000,
    "😀",
    "'; DROP TABLE wieldy_calls--",
    "\u2028",
)


def fill_path(operation: ApiOperation, text: str = "nothing-there") -> str:
    filled = re.sub(r"{\w+}", lambda match: quote(text, safe=""), operation.path)
    return "/api" + filled


async def ask(client: ApiClient, operation: ApiOperation, who: str | None, **changes: Any) -> Any:
    options: dict[str, Any] = {"params": QUERIES.get(operation.name, {})}
    if operation.body is not None:
        options["json"] = BODIES.get(operation.name, {})
    path = changes.pop("path", fill_path(operation))
    return await client.send(operation.method, path, who, **(options | changes))


def test_the_document_has_every_route_and_nothing_else() -> None:
    described = {
        (method.upper(), path.removeprefix("/api"))
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    assert described == {(each.method, each.path) for each in OPERATIONS}
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)


async def test_an_answer_is_data_to_every_browser(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        for operation in OPERATIONS:
            answer = await ask(client, operation, None, params={"nonsense": "1"})
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"


async def test_nobody_comes_in_without_a_token(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        for operation in OPERATIONS:
            for who in (None, "mallory", "cal-secret "):
                answer = await ask(client, operation, who)
                said = (answer.status_code, answer.json()["error"]["code"])
                assert said == (401, "no_token"), (operation.name, who)


async def test_an_operation_is_for_its_roles_and_for_administrators(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        for operation in PLAIN:
            for who, roles in PEOPLE.items():
                answer = await ask(client, operation, who)
                needed = {*(operation.roles or ("call", "approve")), "administer"}
                allowed = needed & {*roles} or operation.for_all
                refused = answer.status_code == 403
                assert refused is not bool(allowed), (operation.name, who, answer.text)
                assert answer.status_code < 500, (operation.name, who, answer.text)


def test_without_a_role_one_reads_who_one_is_and_the_document() -> None:
    assert {each.name for each in OPERATIONS if each.for_all} == FOR_ALL


async def test_hostile_text_in_a_path_is_an_id_that_does_not_exist(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        for operation in (each for each in PLAIN if "{" in each.path):
            for text in HOSTILE:
                answer = await ask(client, operation, "adam", path=fill_path(operation, text))
                assert answer.status_code == 404, (operation.name, text, answer.text)
        raw = await client.send("GET", "/api/calls/%ff%fe%ed%a0%80")
        assert raw.status_code == 404


async def test_what_a_request_does_not_know_is_refused(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        for operation in OPERATIONS:
            unknown = await ask(client, operation, "adam", params={"nonsense": "1"})
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (
                422,
                "invalid_request",
            )
            twice = await client.refused(
                operation.method, fill_path(operation) + "?a=1&a=2", "adam"
            )
            assert twice == (400, "repeated"), operation.name
            if "cursor" in operation.query.model_fields:
                for cursor in ("x", "bnVsbA", "W10", "W251bGwsIG51bGxd", "é", "WzFlOTk5LCAiYSJd"):
                    bad = await ask(client, operation, "adam", params={"cursor": cursor})
                    assert bad.status_code == 400, (operation.name, cursor, bad.text)
                    assert bad.json()["error"]["code"] == "bad_cursor"


BAD_BODIES: list[tuple[bytes, str, tuple[int, str]]] = [
    (b"{}", "text/plain", (415, "not_json")),
    (b"a=1", "application/x-www-form-urlencoded", (415, "not_json")),
    (b"{", "application/json", (400, "invalid_json")),
    (b"", "application/json", (400, "invalid_json")),
    (b"\xff\xfe", "application/json", (400, "invalid_json")),
    (b'{"tool": "\\ud800"}', "application/json", (400, "invalid_json")),
    (b"[" * 40_000, "application/json", (400, "invalid_json")),
    (b"[]", "application/json", (422, "invalid_request")),
    (b"null", "application/json", (422, "invalid_request")),
    (b'{"nonsense": 1}', "application/json; charset=utf-8", (422, "invalid_request")),
]


@pytest.mark.parametrize(("body", "kind", "refusal"), BAD_BODIES)
async def test_a_body_that_is_not_what_is_expected_is_refused(
    body: bytes, kind: str, refusal: tuple[int, str], tmp_path: Path
) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        for operation in (each for each in OPERATIONS if each.body is not None):
            said = await client.refused(
                operation.method,
                fill_path(operation),
                "adam",
                content=body,
                headers={"Content-Type": kind},
            )
            assert said == refusal, operation.name


async def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False, max_body=1000) as client:
        for operation in (each for each in OPERATIONS if each.body is not None):
            answer = await ask(client, operation, "adam", json={"reason": "x" * 2000})
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_other_paths_and_methods_are_told_what_there_is(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        assert await client.refused("GET", "/api/nonsense") == (404, "not_found")
        assert await client.refused("PATCH", "/api/calls") == (405, "wrong_method")
        assert await client.refused("DELETE", "/api/me") == (405, "wrong_method")


async def test_without_a_store_what_needs_one_says_so(tmp_path: Path) -> None:
    box = Toolbox()
    box.add(lambda: "hello", name="greet", permission="confirm")
    async with api_of(box, tokens=False) as client:
        for path in ("calls", "artifacts", "sessions", "runs", "calls/x", "events"):
            assert await client.refused("GET", f"/api/{path}") == (409, "no_store")
        made = await client.post("/api/calls", {"tool": "greet"})
        waiting = (await client.get("/api/pending"))["pending"]
        done = await client.post(f"/api/pending/{waiting[0]['call_id']}/approve", {}, "adam")
    assert (made["state"], done["state"], done["value"]) == ("pending", "ok", "hello")
