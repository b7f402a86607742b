"""A toolbox's state is kept in the store under a name."""

from collections.abc import Callable

import pytest

from wieldy import NotKept, StoreError, Toolbox

Execute = Callable[[str], str]


def make_box(url: str) -> Toolbox:
    box = Toolbox(store=url)
    for name in ("files", "web"):
        box.groups.create(name)
    return box


async def test_a_state_outlives_its_process(url: str) -> None:
    async with make_box(url) as box:
        box.groups.activate("web")
        box.rules.deny("rm_*", {"path": "/etc/**"}, reason="\0 no", agent="ann")
        await box.save_state()
        box.groups.activate("files")
        await box.save_state("both \ud800")
        kept = box.state()
    async with make_box(url) as box:
        await box.load_state()
        assert [group.name for group in box.groups if group.active] == ["basic", "web"]
        assert [rule.reason for rule in box.rules] == ["\0 no"]
        await box.load_state("both \ud800")
        assert box.state() == kept
        box.groups.deactivate("web", "files")
        await box.save_state()
        await box.load_state()
        assert box.state()["active_groups"] == []


async def test_a_state_that_is_not_there_or_damaged_changes_nothing(
    url: str, execute: Execute
) -> None:
    async with make_box(url) as box:
        box.groups.activate("web")
        before = box.state()
        with pytest.raises(NotKept, match="no state 'default'"):
            await box.load_state()
        with pytest.raises(ValueError, match="the name of a state is text of 1 to 500 characters"):
            await box.save_state("x" * 501)
        await box.save_state()
        execute("UPDATE wieldy_states SET state = '{'")
        with pytest.raises(StoreError, match="can't be read"):
            await box.load_state()
        execute("UPDATE wieldy_states SET state = '{\"version\": 9}'")
        with pytest.raises(ValueError, match="active_groups"):
            await box.load_state()
        assert box.state() == before
