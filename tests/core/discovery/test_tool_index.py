"""Finding tools by what they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Tool, Toolbox


def nothing() -> None: ...


def filled() -> Toolbox:
    box = Toolbox()
    for name, description in [
        ("send_mail", "Send an email to one or more people."),
        ("readCalendar", "List the meetings of a day."),
        ("http_get", "Fetch a page over the network."),
        ("搜索", "在互联网上搜索信息"),
    ]:
        box.add(lambda: None, name=name, description=description)
    return box


def found(box: Toolbox, query: str) -> list[str]:
    return [tool.name for tool in box.search(query)]


def test_words_in_names_and_descriptions_are_found() -> None:
    box = filled()
    assert found(box, "send an email")[0] == "send_mail"
    assert found(box, "calendar") == ["readCalendar"]
    assert found(box, "which meeting is next?") == ["readCalendar"]
    assert found(box, "fetching pages")[0] == "http_get"
    assert found(box, "搜索")[0] == "搜索"
    assert found(box, "") == []
    assert found(box, "zebra") == []


def test_a_word_in_the_name_outweighs_one_in_the_description() -> None:
    box = Toolbox()
    box.add(lambda: None, name="a", description="It can send.")
    box.add(lambda: None, name="send", description="Nothing else.")
    assert found(box, "send") == ["send", "a"]


def test_the_limit_and_the_order_of_equals_hold() -> None:
    box = Toolbox()
    for number in range(20):
        box.add(lambda: None, name=f"tool{number}", description="the same words")
    assert [tool.name for tool in box.search("same words", limit=3)] == ["tool0", "tool1", "tool2"]


def test_the_index_follows_what_is_added_replaced_and_removed() -> None:
    box = filled()
    assert found(box, "email") == ["send_mail"]
    box.add(lambda: None, name="fax", description="An email on paper.")
    assert set(found(box, "email")) == {"send_mail", "fax"}
    box.add(lambda: None, name="fax", description="Paper.", on_conflict="override")
    box.remove("send_mail")
    assert found(box, "email") == []
    assert found(box, "paper") == ["fax"]


def test_what_is_hidden_is_not_found() -> None:
    box = filled()
    box.groups.create("post", active=False)
    box.add(lambda: None, name="letter", description="Send a letter.", group="post")
    assert "letter" not in found(box, "letter")
    box.groups.activate("post")
    assert found(box, "letter") == ["letter"]
    box.groups.remove("post")
    assert found(box, "letter") == []


NAMES = st.sampled_from(["send", "read_mail", "makeCalendar", "fetch"])
WORDS = st.lists(st.sampled_from(["mail", "pages", "reading", "day"]), max_size=4).map(" ".join)


@given(st.lists(st.tuples(NAMES, WORDS | st.none()), max_size=12), WORDS)
def test_following_changes_gives_what_starting_anew_gives(
    changes: list[tuple[str, str | None]], query: str
) -> None:
    followed, now = Toolbox(), {}
    for name, description in changes:
        followed.search("mail")
        if description is not None:
            followed.add(nothing, name=name, description=description, on_conflict="override")
            now[name] = description
        elif name in now:
            followed.remove(name)
            del now[name]
    fresh = Toolbox()
    for name, description in now.items():
        fresh.add(nothing, name=name, description=description)
    assert found(followed, query) == found(fresh, query)


def test_words_in_names_of_parameters_are_found_without_building_a_schema() -> None:
    box = Toolbox()

    def ship(parcel_weight: float, carrier: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Send it off."""

    def schema() -> dict[str, object]:
        raise AssertionError("the schema was built")

    box.add(ship)
    box.add(Tool(lambda: None, name="later", description="Wait.", input_schema=schema))
    outside = {"type": "object", "properties": {"latitude": {"type": "number"}}}
    box.add(lambda **given: None, name="place", description="Where.", input_schema=outside)

    assert found(box, "weight of a parcel") == ["ship"]
    assert found(box, "which carrier?") == ["ship"]
    assert found(box, "latitude") == ["place"]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("erase a file", "delete_file"),
        ("modify a file", "update_file"),
        ("which directories are there", "list_folders"),
        ("run the runner", "runners"),
    ],
)
def test_words_that_mean_the_same_and_other_forms_are_found(question: str, name: str) -> None:
    box = Toolbox()
    for each in ("delete_file", "update_file", "list_folders", "runners"):
        box.add(lambda: None, name=each, description=".")

    assert found(box, question)[0] == name


def test_a_word_of_a_short_description_counts_more_than_one_of_a_long_one() -> None:
    box = Toolbox()
    box.add(lambda: None, name="a", description="Words. " * 60 + "Invoice.")
    box.add(lambda: None, name="b", description="Invoice.")

    assert found(box, "invoice") == ["b", "a"]


@pytest.mark.parametrize("query", ["", " \n", "?!…", "\ud800", "the of to", "\x00"])
def test_a_search_for_nothing_finds_nothing(query: str) -> None:
    assert found(filled(), query) == []


def test_of_a_very_long_question_only_the_beginning_is_looked_at() -> None:
    assert found(filled(), "calendar " + "email " * 2_000_000)[:1] != []
    assert found(filled(), "x " * 100_000 + "calendar") == []
