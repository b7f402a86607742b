"""Documents: where they come from, what is no document, and what is made of one."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.openapi.api import Api, document, operation
from wieldy import DocumentError, NameTaken, Permission, Status, Toolbox
from wieldy.core.arguments.yaml_reader import read_yaml_text

SMALL = document({"/x": {"get": operation(summary="Get x.", tags=["things"])}})


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.1.0", "3.1.1"])
@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("place", ["file", "url", "dict"])
async def test_a_document_is_read_from_anywhere_in_any_form(
    box: Toolbox, api: Api, tmp_path: Path, version: str, form: str, place: str
) -> None:
    data = {**SMALL, "openapi": version}
    text = json.dumps(data) if form == "json" else yaml.safe_dump(data)
    api.answer("/openapi", 200, text)
    file = tmp_path / f"openapi.{form}"
    file.write_text(text)
    source: Any = {"file": file, "url": f"{api.url}/openapi", "dict": data}[place]

    (tool,) = await box.add_openapi(source, tags=["mine"])

    assert (tool.name, tool.description) == ("it", "Get x.")
    assert (tool.tags, tool.source) == (("mine", "things"), "openapi:Test")
    assert box.names == ["it"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an object is needed"),
        (b"[]", "an object is needed"),
        (b"hello", "an object is needed"),
        (b"{}", 'there is no "openapi" in it'),
        (b'{"openapi": "3.0.0"', "it is not JSON"),
        (b'{"openapi": "3.0.0"}', 'there are no "paths" in it'),
        (b'{"openapi": "3.0.0", "paths": []}', '"paths" must be an object'),
        (b'{"openapi": "3.0.0", "paths": {"/x": 3}}', "'/x' is not an object"),
        (b'{"swagger": "2.0", "paths": {}}', "it is Swagger 2.0, and OpenAPI 3.0 or 3.1"),
        (b'{"openapi": "4.0.0", "paths": {}}', "it is OpenAPI 4.0.0"),
        (b"<!DOCTYPE html><html></html>", "it is HTML or XML"),
        (b"a: b: c", "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"\x89PNG\xff", "UTF-8"),
        (b"{,", "it is not JSON"),
        (b"[" * 100_000, "it is nested more than 100 levels deep"),
        (b"- " * 100_000, "nested more than"),
        (b"a: !!python/object/apply:os.system [id]", "is not data"),
        (b"a: &a [*a]", "refers to itself"),
        (b"a: 1\n---\nb: 2", "more than one YAML document"),
        (b"? [a]\n: 1", "a key that is not text"),
    ],
)
async def test_what_is_no_document_is_refused_in_words(
    box: Toolbox, tmp_path: Path, content: bytes, said: str
) -> None:
    box.add(len, "mine", input_schema={})
    file = tmp_path / "spec"
    file.write_bytes(content)

    with pytest.raises(DocumentError) as refused:
        await box.add_openapi(file)

    assert said in str(refused.value)
    assert str(file) in str(refused.value)
    assert box.names == ["mine"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("missing.json", "can't be read"),
        (".", "can't be read"),
        ("a\0b", "can't be read"),
        ('{"openapi": "3.0.0"}', "this is its text"),
        (7, "expected a file, a URL or a dict, got int"),
        (None, "got NoneType"),
        ("http://127.0.0.1:9/openapi.json?key=sesame-open", "failed"),
        ("http://[bad/openapi.json", ""),
    ],
)
async def test_what_can_not_be_read_is_refused_in_words(
    box: Toolbox, source: Any, said: str
) -> None:
    with pytest.raises(DocumentError) as refused:
        await box.add_openapi(source)
    assert said in str(refused.value)
    assert "sesame" not in str(refused.value)


async def test_a_url_that_answers_with_an_error_is_refused(box: Toolbox, api: Api) -> None:
    api.answer("/spec", 404, "no such page")
    with pytest.raises(DocumentError, match="404 Not Found"):
        await box.add_openapi(f"{api.url}/spec")


async def test_aliases_that_explode_are_refused_before_they_do(
    box: Toolbox, tmp_path: Path
) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    merges = ["m0: &m0 {a: 1}"]
    merges += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    for text in ("\n".join(lines), "\n".join(merges)):
        file = tmp_path / "bomb.yaml"
        file.write_text(text)
        with pytest.raises(DocumentError, match="aliases repeat too much"):
            await box.add_openapi(file)


def test_yaml_means_what_json_means() -> None:
    text = """
    no: no
    date: 2020-01-01
    time: 12:30
    200: &ok {a: 0o7, b: "1", c: 1, d: -1.5e3, e: ~, f: true, g: 0x1F, h: !!str 5}
    merged: {<<: *ok, a: mine}
    same: *ok
    """
    ok = {"a": "0o7", "b": "1", "c": 1, "d": -1500.0, "e": None, "f": True, "g": "0x1F", "h": "5"}
    assert read_yaml_text(text) == {
        "no": "no", "date": "2020-01-01", "time": "12:30", "200": ok,
        "merged": {**ok, "a": "mine"}, "same": ok,
    }  # fmt: skip


# The writer leaves `0E0` without quotes, because YAML 1.1 has no such number. JSON has.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=10).filter(
    lambda text: re.fullmatch(r"-?\d+[eE][-+]?\d+", text) is None
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda key: key != "<<"),
            inner,
            max_size=4,
        )
    ),
)


@given(value=VALUES)
def test_what_is_written_as_yaml_is_read_as_it_was(value: Any) -> None:
    assert read_yaml_text(yaml.safe_dump(value)) == value


async def test_operations_without_an_id_are_named_by_method_and_path(box: Toolbox) -> None:
    plain: dict[str, Any] = {"responses": {}}
    paths = {"/users/{id}/posts": {"get": plain, "delete": plain}, "/": {"get": plain}}
    await box.add_openapi(document(paths))
    assert box.names == ["get_users_id_posts", "delete_users_id_posts", "get"]


async def test_names_are_legal_unique_and_do_not_depend_on_the_order(box: Toolbox) -> None:
    ids = ["repos/list-for org", "same", "same", "a.b", "a-b", "ключ", "x" * 80, "x" * 80 + "y"]
    paths = {f"/p{n}": {"get": operation(operationId=each)} for n, each in enumerate(ids)}
    tools = await box.add_openapi(document(paths))
    other = Toolbox()
    turned = await other.add_openapi(document(dict(reversed(paths.items()))))

    names = [tool.name for tool in tools]
    assert names[0] == "repos_list_for_org"
    assert names[5] == "get_p5"
    assert len(set(names)) == len(ids)
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in names)
    assert sorted(names) == sorted(tool.name for tool in turned)


async def test_a_denied_operation_id_holds_however_the_tool_had_to_be_named(box: Toolbox) -> None:
    paths = {f"/p{n}": {"get": operation(operationId="users.wipe")} for n in range(2)}
    for prefix in (None, "api"):
        await box.add_openapi(document(paths), prefix=prefix, base_url="https://api.example")
    assert len(box.names) == 4 and "users_wipe" not in box.names
    for name in ("users.wipe", "users_wipe"):
        rule = box.rules.deny(name)
        assert {(await box.call(each)).status for each in box.names} == {Status.DENIED}
        box.rules.remove(rule)


async def test_methods_say_what_an_operation_does_to_the_world(box: Toolbox) -> None:
    methods = ("get", "head", "post", "put", "patch", "delete")
    paths = {"/x": {method: operation(operationId=method) for method in methods}}
    tools = await box.add_openapi(document(paths))
    traits = {tool.name: [each for each, holds in tool.traits.items() if holds] for tool in tools}
    assert traits == {
        "get": ["read_only", "idempotent"],
        "head": ["read_only", "idempotent"],
        "post": [],
        "put": ["idempotent"],
        "patch": [],
        "delete": ["idempotent", "destructive"],
    }


async def test_descriptions_are_short_and_tell_what_is_deprecated(box: Toolbox) -> None:
    long = operation(summary="Sum.", description="Word " * 500, deprecated=True)
    paths = {"/x": {"get": long}, "/y": {"get": operation(operationId="bare")}}
    first, second = await box.add_openapi(document(paths))
    assert first.description.startswith("Deprecated.\nSum.\nWord Word")
    assert len(first.description) <= 601
    assert second.description == "GET /y"


@pytest.mark.parametrize(
    ("allow", "deny", "left"),
    [
        (None, None, ["list_pets", "add_pet", "drop_pet"]),
        ("*d_pet*", None, ["add_pet"]),
        (["GET /pets"], None, ["list_pets"]),
        (["GET *", "drop/pet"], None, ["list_pets", "drop_pet"]),
        (None, ["DELETE *"], ["list_pets", "add_pet"]),
        (["*"], ["*pets", "drop*"], ["add_pet"]),
        (iter(["list*", "add*"]), iter(["add*"]), ["list_pets"]),
    ],
)
async def test_allow_and_deny_choose_by_name_id_or_method_and_path(
    box: Toolbox, allow: Any, deny: Any, left: list[str]
) -> None:
    paths = {
        "/pets": {
            "get": operation(operationId="list_pets"),
            "post": operation(operationId="add_pet"),
            "delete": operation(operationId="drop/pet"),
        }
    }
    await box.add_openapi(document(paths), allow=allow, deny=deny)
    assert box.names == left


async def test_choosing_nothing_is_an_error(box: Toolbox) -> None:
    with pytest.raises(DocumentError, match="allow and deny leave none"):
        await box.add_openapi(SMALL, allow="pets_*")


async def test_tools_have_the_prefix_permission_and_group_asked_for(box: Toolbox) -> None:
    box.groups.create("web", active=True)
    (tool,) = await box.add_openapi(SMALL, prefix="shop", permission="confirm", group="web")
    assert (tool.name, tool.permission, tool.group) == ("shop_it", Permission.CONFIRM, "web")
    assert (await box.call("shop_it")).status.value == "pending"


async def test_a_taken_name_leaves_the_box_as_it_was(box: Toolbox) -> None:
    paths = {"/a": {"get": operation(operationId="first")}, "/b": {"get": operation()}}
    box.add(len, "it", input_schema={})
    with pytest.raises(NameTaken):
        await box.add_openapi(document(paths))
    assert box.names == ["it"]

    await box.add_openapi(document(paths), prefix="api")
    await box.add_openapi(document(paths), on_conflict="skip")
    assert box.names == ["it", "api_first", "api_it", "first"]


@pytest.mark.parametrize(
    "broken",
    [
        {"parameters": [{"$ref": "#/components/parameters/Nowhere"}]},
        {"parameters": [{"name": "a", "in": "somewhere"}]},
        {"parameters": [{"in": "query"}]},
        {"parameters": ["a"]},
        {"requestBody": {"$ref": "#/components/requestBodies/Nowhere"}},
    ],
)
async def test_an_operation_that_can_not_be_called_is_named_and_can_be_left_out(
    box: Toolbox, broken: dict[str, Any]
) -> None:
    paths = {"/a": {"get": operation(operationId="good")}, "/b": {"get": operation(**broken)}}
    with pytest.raises(DocumentError, match=r"GET /b: .* deny=\['GET /b'\]"):
        await box.add_openapi(document(paths))
    assert box.names == []

    await box.add_openapi(document(paths), deny=["GET /b"])
    assert box.names == ["good"]


async def test_odd_pieces_that_do_not_matter_are_passed_over(box: Toolbox) -> None:
    odd = {
        "operationId": 7, "summary": 3, "tags": "x", "parameters": {}, "requestBody": [],
        "responses": [], "security": "no", "servers": {}, "deprecated": "yes",
    }  # fmt: skip
    paths = {"/a": {"get": odd, "post": 3, "x-get": {}}, "x-note": {}, "/b": {"summary": "none"}}
    data = document(paths, info=[], tags=3, components={"securitySchemes": [], "schemas": 3})
    (tool,) = await box.add_openapi(data)
    assert (tool.name, tool.source) == ("get_a", "openapi:untitled")
    assert tool.input_schema["properties"] == {}
    assert tool.output_schema is None


async def test_two_thousand_operations_are_read_and_one_schema_worked_out_when_asked(
    box: Toolbox,
) -> None:
    reference = {"$ref": "#/components/schemas/Big"}
    body = {"content": {"application/json": {"schema": reference}}, "required": True}
    paths = {f"/p{n}": {"post": operation(operationId=f"op{n}", requestBody=body)}
             for n in range(2_000)}  # fmt: skip
    broken = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = await box.add_openapi(document(paths, components={"schemas": {"Big": broken}}))

    # Read only now: a change to the document is still seen.
    broken["properties"] = {"later": {"type": "string"}}
    assert list(tools[1_999].input_schema["properties"]) == ["later"]
    assert len(box) == 2_000
    assert [tool.name for tool in box.search("op77")] == ["op77"]


async def test_two_documents_are_added_at_once(box: Toolbox, api: Api) -> None:
    for name in ("a", "b"):
        paths = {"/x": {"get": operation(operationId=name)}}
        api.answer(f"/{name}.json", 200, json.dumps(document(paths)))
    adding = [box.add_openapi(f"{api.url}/{name}.json") for name in ("a", "b")]
    await asyncio.gather(*adding)
    assert sorted(box.names) == ["a", "b"]
    outcomes = await box.call_many([("a", {}), ("b", {}), ("a", {})])
    assert [outcome.unwrap()["path"] for outcome in outcomes] == ["/x"] * 3


@pytest.mark.parametrize("missing", ["httpx2", "yaml"])
def test_without_the_extra_an_import_error_names_it(missing: str) -> None:
    program = f"""
import asyncio, sys
sys.modules[{missing!r}] = None
from wieldy import Toolbox
try:
    asyncio.run(Toolbox().add_openapi({{}}))
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert 'pip install "wieldy[openapi]"' in done.stdout
