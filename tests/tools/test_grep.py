"""Lines that match an expression from a model, whatever the expression is."""

import pytest

from wieldy.tools.grep import grep_lines

TEXT = "alpha\nbeta\ngamma\r\ndelta\nBETA\n"


def found(
    pattern: str, text: str = TEXT, case: bool = False, around: int = 0, most: int = 50
) -> str:
    return grep_lines(text, pattern, case, around, most)


def test_lines_are_found_with_their_numbers() -> None:
    assert found("^.eta|^gam") == "2: beta\n3: gamma\n[2 of 5 lines match]"


def test_letters_may_be_large_or_small() -> None:
    assert found("beta", case=True) == "2: beta\n5: BETA\n[2 of 5 lines match]"


def test_lines_around_a_match_are_shown_once() -> None:
    assert found("alpha|beta|BETA", around=1) == (
        "1: alpha\n2: beta\n3- gamma\n4- delta\n5: BETA\n[3 of 5 lines match]"
    )
    assert found("alpha|BETA", around=1) == (
        "1: alpha\n2- beta\n--\n4- delta\n5: BETA\n[2 of 5 lines match]"
    )


def test_all_matches_are_counted_and_the_first_shown() -> None:
    assert found("a$", most=1) == "1: alpha\n[3 of 5 lines match, the first 1 shown]"


def test_nothing_found_is_said() -> None:
    assert found("omega") == "[0 of 5 lines match]"
    assert found("x", text="") == "[0 of 1 lines match]"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "unclosed group"),
        ("(?=x)", "look-around"),
        (r"(a)\1", "backreferences are not supported"),
        (r"(\w{1000}){1000}", "size limit"),
        ("x" * 1001, "longer than 1000"),
    ],
)
def test_an_expression_that_can_not_be_used_is_explained(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        found(pattern)


def test_a_long_line_is_shown_around_its_match() -> None:
    line = "a" * 70_000 + "needle" + "b" * 200_000

    shown = found("needle", text=f"x\n{line}\ny")

    assert shown.startswith("2: …aaa")
    assert "needlebbb" in shown
    assert "… [from character 69,807 of 270,006 of the line]\n[1 of 3 lines match]" in shown
    assert len(shown) < 500


@pytest.mark.parametrize("at", [0, 49_998, 49_999, 50_000, 99_990, 149_990])
def test_a_match_anywhere_in_a_long_line_is_found(at: int) -> None:
    line = "-" * at + "needle"

    assert "needle" in found("needle", text=line + "-" * (150_000 - len(line)))


def test_what_is_no_text_is_passed_over_and_not_the_line_with_it() -> None:
    assert found("needle", text="\ud800 needle\n\0needle") == (
        "1: \ud800 needle\n2: \0needle\n[2 of 2 lines match]"
    )


def test_an_expression_made_to_be_slow_is_not() -> None:
    assert found("(x+x+)+y$", text="x" * 50_000) == "[0 of 1 lines match]"
