"""The tool with which a model switches groups itself."""

import pytest

from wieldy import DefinitionError, Status, Toolbox, add_group_tool


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()
    box.groups.create("browser", "Look at pages.", notes="One page at a time.")
    box.groups.create("files", "Read and write files.", active=True)
    box.add(lambda: "page", name="open_page", group="browser")
    box.add(lambda: "file", name="read_file", group="files")
    return box


async def test_a_model_switches_on_what_it_names_and_off_all_else(box: Toolbox) -> None:
    tool = add_group_tool(box)
    assert box.names == ["read_file", "switch_groups"]

    outcome = await box.call(tool.name, {"groups": ["browser"]})

    assert outcome.text == (
        "These groups of tools are switched on now: browser.\n## browser\nOne page at a time."
    )
    assert box.names == ["open_page", "switch_groups"]
    outcome = await box.call(tool.name, {"groups": []})
    assert outcome.text == "All groups of tools are switched off now."
    assert box.names == ["switch_groups"]


async def test_a_group_that_is_not_there_changes_nothing(box: Toolbox) -> None:
    add_group_tool(box)
    for wrong in (["browser", "sound"], ["basic"], "browser,sound", [3]):
        assert (await box.call("switch_groups", {"groups": wrong})).status is Status.ERROR
    assert box.names == ["read_file", "switch_groups"]


async def test_it_is_described_by_the_groups_that_there_are(box: Toolbox) -> None:
    add_group_tool(box)

    def described() -> tuple[str, list[str]]:
        tool = box.get("switch_groups")
        assert tool is not None
        items = tool.input_schema["properties"]["groups"]["items"]
        return tool.description, items.get("enum", [])

    text, names = described()
    assert names == ["browser", "files"] and "- browser: Look at pages." in text
    box.groups.create("sound", "Hear.")
    group = box.groups.get("browser")
    assert group is not None
    group.description = "Look at any page."
    text, names = described()
    assert names == ["browser", "files", "sound"] and "Look at any page." in text
    box.groups.remove("browser", "files", "sound")
    assert described()[1] == []


async def test_what_was_said_of_the_tool_stays_when_the_groups_change(box: Toolbox) -> None:
    tool = add_group_tool(box, "equip")
    box.add(tool, permission="confirm", on_conflict="override")
    box.groups.create("sound", "Hear.")

    assert (await box.call("equip", {"groups": ["sound"]})).status is Status.PENDING


async def test_a_tool_that_was_taken_out_or_replaced_stays_so(box: Toolbox) -> None:
    add_group_tool(box)
    box.remove("switch_groups")
    box.groups.create("sound")
    assert "switch_groups" not in box

    box.add(lambda: "mine", name="switch_groups")
    box.groups.create("light")
    assert (await box.call("switch_groups")).value == "mine"
    with pytest.raises(DefinitionError):
        add_group_tool(box)
    box.groups.create("heat")
    assert (await box.call("switch_groups")).value == "mine"
