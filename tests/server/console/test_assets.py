"""The console's files as they are read by people: their words, their classes, their size."""

import json
import re

from wieldy.server.console.console_routes import read_assets

SOURCES = {
    name: each.content.decode()
    for name, each in read_assets().items()
    if name.endswith((".js", ".html", ".css"))
}
CODE = "".join(
    text for name, text in SOURCES.items() if not name.startswith("words_") and ".css" not in name
)
STYLE = "".join(text for name, text in SOURCES.items() if name.endswith(".css"))
# A word is named as a whole, or by a template such as `state.${state}`.
NAMED = set(re.findall(r"[\"`]([a-z_]+\.[\w.-]+)[\"`]", CODE))
TEMPLATES = [
    re.compile(re.sub(r"\\\$\\\{[^}]*\}", "[\\\\w.-]+", re.escape(each)))
    for each in re.findall(r"`([a-z_]+\.[\w.-]*\$\{[^`]*)`", CODE)
]


def read_words() -> dict[str, list[str]]:
    """All words by their names, each in English and in Chinese."""
    found: dict[str, list[str]] = {}
    for name in ("words_shared.js", "words_pages.js"):
        group = ""
        for line in SOURCES[name].splitlines():
            if opened := re.fullmatch(r"(\w+): \{", line):
                group = opened[1]
            elif word := re.fullmatch(r"  \"?([\w.-]+)\"?: (\[.*\]),", line):
                key = f"{group}.{word[1]}"
                assert key not in found, key
                found[key] = json.loads(word[2])
            else:
                assert re.match(r"//|export default|\s*\},?;?$|$", line), line
    return found


def test_every_word_is_there_in_both_languages_with_the_same_parameters() -> None:
    words = read_words()

    assert len(words) > 300
    for name, texts in words.items():
        english, chinese = texts
        wanted = set(re.findall(r"\{\w+\}", english))
        assert english and chinese and set(re.findall(r"\{\w+\}", chinese)) == wanted, name


def test_every_word_that_is_named_is_there_and_every_word_is_used() -> None:
    words = read_words()
    asked = re.findall(r"\bt\((?:[^\"()]* )?\"([\w.-]+)\"(?: : \"([\w.-]+)\")?", CODE)

    # A name that is put together and leads nowhere is an error in the browser's console.
    assert {each for names in asked for each in names if each} - words.keys() == set()
    unused = [
        name
        for name in words
        if name not in NAMED and not any(each.fullmatch(name) for each in TEMPLATES)
    ]
    assert unused == []


def test_every_label_is_the_name_of_something() -> None:
    for name in read_words():
        group, _, key = name.partition(".")
        if group == "label":
            assert name in NAMED or re.search(rf"\b{key}\b", CODE), name


def test_every_class_of_the_styles_is_given_to_something() -> None:
    styles = re.sub(r"/\*.*?\*/", "", STYLE, flags=re.DOTALL)
    classes = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", styles))
    # Some classes are put together, such as `plot-${name}`.
    stems = {each for each in re.findall(r"([\w-]+-)\$\{", CODE)}

    unused = {
        each
        for each in classes
        if not re.search(rf"(?<![\w-]){each}(?![\w-])", CODE)
        and not any(each.startswith(stem) for stem in stems)
    }
    assert len(classes) > 100
    assert unused == set()
