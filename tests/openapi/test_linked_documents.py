"""References to other documents: refused without consent, bounded with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.openapi.api import Api, document, operation
from wieldy import DocumentError, Toolbox


def referring(reference: str) -> dict[str, Any]:
    schema = {"$ref": reference}
    body = {"content": {"application/json": {"schema": schema}}, "required": True}
    return document({"/x": {"post": operation(requestBody=body)}})


PET = {"type": "object", "properties": {"name": {"$ref": "#/$defs/Name"}, "mate": {"$ref": "#"}},
       "$defs": {"Name": {"type": "string"}}}  # fmt: skip


@pytest.mark.parametrize(
    "reference",
    ["pet.json", "./pet.json#/a", "../pet.json", "file:///etc/passwd", "/etc/passwd",
     "https://example.com/pet.json", "//example.com/x", "http://169.254.169.254/latest"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["file", "dict"])
async def test_no_reference_leaves_a_document_without_consent(
    box: Toolbox, tmp_path: Path, reference: str, form: str
) -> None:
    (tmp_path / "pet.json").write_text(json.dumps(PET))
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(referring(reference)))
    source: Any = file if form == "file" else referring(reference)

    with pytest.raises(DocumentError) as refused:
        await box.add_openapi(source)

    said = str(refused.value)
    assert reference in said
    assert "refs=True" in said or "only a document from a file or a URL" in said
    assert box.names == []


async def test_a_reference_in_an_example_or_a_property_of_that_name_is_none(box: Toolbox) -> None:
    data = referring("#/components/schemas/A")
    properties = {"$ref": {"type": "string"}, "example": {"type": "string"}}
    data["components"] = {
        "schemas": {"A": {"properties": properties, "example": {"$ref": "http://x/"}}},
        "examples": {"e": {"value": {"$ref": "other.json"}}},
    }
    data["x-note"] = {"$ref": "note.json"}
    (tool,) = await box.add_openapi(data)
    assert list(tool.input_schema["properties"]) == ["ref", "example"]


async def test_with_consent_the_own_folder_is_read_and_circles_end(
    box: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "pet.yaml").write_text(
        "properties:\n  mate: {$ref: 'pet.yaml'}\n  home: {$ref: '../home.json#/Home'}"
    )
    home = {"Home": {"type": "object", "properties": {"pet": {"$ref": "schemas/pet.yaml"}}}}
    (tmp_path / "home.json").write_text(json.dumps(home))
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(referring("schemas/pet.yaml")))

    (tool,) = await box.add_openapi(file, refs=True)

    assert tool.input_schema["properties"] == {
        "mate": {"$ref": "#/$defs/pet.yaml"},
        "home": {"$ref": "#/$defs/Home"},
    }
    home_schema = tool.input_schema["$defs"]["Home"]
    assert home_schema["properties"] == {"pet": {"$ref": "#/$defs/pet.yaml"}}


@pytest.mark.parametrize("reference", ["../outside.json", "link.json", "http://127.0.0.1:9/x"])
async def test_consent_to_the_own_folder_is_not_consent_to_another(
    box: Toolbox, tmp_path: Path, reference: str
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.json").write_text(json.dumps(PET))
    (inside / "link.json").symlink_to(tmp_path / "outside.json")
    file = inside / "openapi.json"
    file.write_text(json.dumps(referring(reference)))

    with pytest.raises(DocumentError, match="leads out of what is allowed"):
        await box.add_openapi(file, refs=True)

    if reference == "../outside.json":
        (tool,) = await box.add_openapi(file, refs=[str(tmp_path)])
        assert list(tool.input_schema["properties"]) == ["name", "mate"]


async def test_a_fetched_document_reads_its_own_host_and_no_other(
    box: Toolbox, api: Api, other_api: Api
) -> None:
    other_api.answer("/schemas/pet.json", 200, json.dumps(PET))
    api.answer("/pet.json", 200, json.dumps(PET))
    api.answer("/sneaky.json", 302, Location=f"{other_api.url}/schemas/pet.json")
    far = f"{other_api.url}/schemas/pet.json"
    for number, reference in enumerate(["pet.json", far, "sneaky.json", "file:///etc/hostname"]):
        api.answer(f"/{number}.json", 200, json.dumps(referring(reference)))

    (tool,) = await box.add_openapi(f"{api.url}/0.json", refs=True)
    assert list(tool.input_schema["properties"]) == ["name", "mate"]
    for number in (1, 2, 3):
        with pytest.raises(DocumentError, match="leads out of what is allowed"):
            await box.add_openapi(f"{api.url}/{number}.json", refs=True, prefix="n")
    allowed = [f"{other_api.url}/schemas"]
    await box.add_openapi(f"{api.url}/1.json", refs=allowed, prefix="far")
    with pytest.raises(DocumentError, match="leads out"):
        await box.add_openapi(f"{api.url}/1.json", refs=[f"{other_api.url}/schem"], prefix="no")
    assert box.names == ["it", "far_it"]


async def test_a_whole_path_and_its_parameters_may_stand_elsewhere(
    box: Toolbox, tmp_path: Path, api: Api
) -> None:
    item = {"get": operation(parameters=[{"$ref": "#/shared/Id"}]),
            "shared": {}}  # fmt: skip
    shared = {"Id": {"name": "id", "in": "path", "required": True}}
    (tmp_path / "item.json").write_text(json.dumps({"item": item, "shared": shared}))
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document({"/x/{id}": {"$ref": "item.json#/item"}})))
    await box.add_openapi(file, refs=True, base_url=api.url)
    assert (await box.call("it", {"id": 5})).unwrap()["path"] == "/x/5"


async def test_a_part_that_is_missing_or_broken_is_named(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(referring("gone.json")))
    with pytest.raises(DocumentError, match=r"gone\.json: it can't be read"):
        await box.add_openapi(file, refs=True)


async def test_a_reference_that_hides_from_a_look_at_the_text_is_still_not_followed(
    box: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "pet.json").write_text(json.dumps(PET))
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(referring("pet.json")).replace("$ref", "\\u0024ref"))
    (tool,) = await box.add_openapi(file)
    assert "which is not there" in json.dumps(tool.input_schema)


async def test_a_folder_of_a_host_is_not_left_with_encoded_steps(box: Toolbox, api: Api) -> None:
    api.answer("/pet.json", 200, json.dumps(PET))
    data = referring(f"{api.url}/schemas/%2e%2e/pet.json")
    with pytest.raises(DocumentError, match="leads out"):
        await box.add_openapi(data, refs=[f"{api.url}/schemas"])
    assert api.asked == []
