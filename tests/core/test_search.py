"""Finding tools by what they do."""

from hypothesis import given
from hypothesis import strategies as st

from wieldy import Toolbox


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
