"""What a docstring says about a tool and its parameters."""

import pytest

from wieldy import Tool

BOTH = {"a": "the first", "b": "the second"}
FIRST = {"a": "the first"}


@pytest.mark.parametrize(
    ("docstring", "description", "texts"),
    [
        ("Add.\n\nArgs:\n    a: the first\n    b: the second\n", "Add.", BOTH),
        ("Add.\nArgs:\n    a: the first\n    b: the second\n", "Add.", BOTH),
        ("Add.\n\nArgs:\n    a (int): the first\n    b: the\n        second\n", "Add.", BOTH),
        ("Add.\n\nArgs:\n    a: the first\n\nReturns:\n    the sum\n", "Add.", FIRST),
        ("Add.\n\nArgs:\n    a: the first\n    b:\n", "Add.", FIRST),
        (
            "Add.\n\nParameters\n----------\na : int\n    the first\nb\n    the second\n",
            "Add.",
            BOTH,
        ),
        ("Add.\nParameters\n----------\na : int\n    the first\nb : int\n", "Add.", FIRST),
        ("Add.\n\n:param a: the first\n:param int b: the second\n", "Add.", BOTH),
        ("Add.\n:param a: the first\n:param b:\n", "Add.", FIRST),
        ("Add.\n\nWith care.\n\n:param a: the first\n", "Add.\n\nWith care.", FIRST),
        ("A line\nthat goes on.\n\nArgs:\n    a: the first\n", "A line\nthat goes on.", FIRST),
        ("Add.\n\nArgs:\n  nothing like it\n", "Add.\n\nArgs:\n  nothing like it", {}),
        ("", "", {}),
        ("   ", "", {}),
        (None, "", {}),
    ],
)
def test_docstring_gives_the_description_and_the_parameters_texts(
    docstring: str | None, description: str, texts: dict[str, str]
) -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    add.__doc__ = docstring
    tool = Tool(add)

    shown = tool.input_schema["properties"]
    assert tool.description == description
    assert {k: v["description"] for k, v in shown.items() if "description" in v} == texts


def test_given_description_goes_before_the_docstring() -> None:
    def add(a: int) -> int:
        """From the docstring.

        Args:
            a: the first
        """
        return a

    tool = Tool(add, description="Given.")

    assert tool.description == "Given."
    assert tool.input_schema["properties"] == {"a": {"type": "integer", "description": "the first"}}


def test_callable_object_is_described_by_its_call_and_else_by_its_class() -> None:
    class Said:
        """The class."""

        def __call__(self, a: int) -> int:
            """The call.

            :param a: the first
            """
            return a

    class Silent:
        """The class."""

        def __call__(self, a: int) -> int:
            return a

    assert (Tool(Said()).description, Tool(Silent()).description) == ("The call.", "The class.")
    assert Tool(Said()).input_schema["properties"]["a"]["description"] == "the first"
