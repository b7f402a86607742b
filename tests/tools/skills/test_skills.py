"""Folders with instructions, listed in a few tokens and read on demand."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import NameTaken, Outcome, Toolbox
from wieldy.lock.lockfile import Lock
from wieldy.tools.skills import SkillError, add_skills, find_skills
from wieldy.tools.skills.skill_document import read_document
from wieldy.wire.cost import rendering

FRONT = "---\nname: {name}\ndescription: {description}\n---\n"


def make_skill(folder: Path, name: str = "pdf") -> Path:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    text = FRONT.format(name=name, description=f"Work with {name} files. Use it for forms.")
    (skill / "SKILL.md").write_text(f"{text}\n# How\n\nSee scripts/fill.py.\n")
    (skill / "scripts" / "fill.py").write_text("print('filled')\n")
    return skill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    for name in ("pdf", "docx"):
        make_skill(folder, name)
    return folder


def read(box: Toolbox, **arguments: Any) -> Outcome:
    return box.call_sync("read_skill", arguments)


def test_skills_are_listed_in_a_few_tokens_and_read_on_demand(folder: Path) -> None:
    box = Toolbox(permission_mode="read-only")
    tool, _ = add_skills(box, folder)

    assert "- docx: Work with docx files. Use it for forms.\n- pdf:" in tool.description
    assert "fill.py" not in rendering(box, "openai")
    assert box.cost().total < 500
    body = read(box, skill="pdf").unwrap()
    assert body.startswith("# How\n\nSee scripts/fill.py.\n")
    assert "- scripts/fill.py (16 bytes)" in body
    assert read(box, skill="pdf", path="scripts/fill.py").unwrap() == "print('filled')\n"


@pytest.mark.parametrize(("count", "most"), [(3, 1_000), (30, 400), (300, 120)])
def test_the_more_skills_there_are_the_less_is_listed_of_each(
    tmp_path: Path, count: int, most: int
) -> None:
    for number in range(count):
        skill = tmp_path / f"s{number}"
        skill.mkdir()
        front = FRONT.format(name=f"s{number}", description="word " * 200)
        (skill / "SKILL.md").write_text(front)

    (tool,) = add_skills(Toolbox(), tmp_path)

    lines = tool.description.partition("Skills:\n")[2].splitlines()
    assert len(lines) == count
    assert most - 20 <= max(map(len, lines)) <= most + 20


def test_a_folder_that_is_a_skill_itself_and_nested_ones_are_found(folder: Path) -> None:
    make_skill(folder / "more" / "office", "xlsx")
    (folder / "README.md").write_text("Not a skill.")

    assert [skill.name for skill in find_skills(folder)] == ["docx", "pdf", "xlsx"]
    assert [skill.name for skill in find_skills(folder / "pdf")] == ["pdf"]
    box = Toolbox()
    add_skills(box, folder / "pdf")
    assert read(box, skill="pdf", path="scripts/fill.py").ok


def test_a_published_front_matter_loads_unchanged(tmp_path: Path) -> None:
    skill = tmp_path / "any-folder"
    skill.mkdir()
    lines = [
        "---",
        "name: brand-guidelines",
        "description: >",
        "  Applies colors: use it",
        "  when asked.",
        "license: Complete terms in LICENSE.txt",
        "allowed-tools: Read, Bash(git:*)",
        "metadata:",
        "  version: '1.0'",
        "---",
        "",
        "# Brand",
    ]
    (skill / "SKILL.md").write_bytes("\r\n".join(["\ufeff" + lines[0], *lines[1:]]).encode())

    (found,) = find_skills(skill)

    assert found.name == "brand-guidelines"
    assert found.description == "Applies colors: use it when asked."
    assert found.document.facts["allowed-tools"] == "Read, Bash(git:*)"
    assert found.document.body == "# Brand\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("description: Sync. Trigger: '/sync', \"go\".", "Sync. Trigger: '/sync', \"go\"."),
        ("description: Sync.\n  USE: always\n  and: often", "Sync. USE: always and: often"),
        ("description: | Use it.\nversion: 1", "| Use it."),
        ("argument-hint: [a] | (b)\ndescription: It works.", "It works."),
        ("description: @here\nallowed-tools:\n  - Read\n  - Bash(git: *)", "@here"),
        ("description: |-\n  One: two.\n\n  SKIP: three.\nlicense: x: y", "One: two. SKIP: three."),
        ("description: '技能: 表'\nmetadata: {a: b}", "技能: 表"),
    ],
)
def test_front_matter_that_is_not_quite_yaml_is_read_as_others_read_it(
    tmp_path: Path, lines: str, said: str
) -> None:
    (tmp_path / "SKILL.md").write_text(f"---\nname: one\n{lines}\n---\nBody")

    (skill,) = find_skills(tmp_path)

    assert skill.description == said


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("--- \nname: one\ndescription: x\n---\t\n\n# One\n---\nMore", "# One\n---\nMore\n"),
        ("---\nname: one\ndescription: x\n---", "\n"),
        ("---\r\nname: one\r\ndescription: x --- y\r\n---\r\nBody", "Body\n"),
    ],
)
def test_the_lines_around_the_front_matter_may_end_in_spaces(text: str, body: str) -> None:
    document = read_document("one", text)

    assert (document.name, document.body) == ("one", body)


@given(st.text(max_size=300))
def test_any_front_matter_is_read_or_refused(text: str) -> None:
    try:
        document = read_document("one", f"---\nname: one\n{text}\n---\nBody")
    except SkillError as error:
        assert len(str(error)) < 600
    else:
        assert document.name


@pytest.mark.parametrize(
    "path",
    [
        "./scripts/fill.py",
        "scripts//fill.py",
        "Scripts/FILL.py",
        "references/../scripts/fill.py",
        "/skills/pdf/scripts/fill.py",
        "${CLAUDE_SKILL_DIR}/scripts/fill.py",
        "{baseDir}/scripts/fill.py",
    ],
)
def test_paths_as_instructions_write_them_find_the_file(folder: Path, path: str) -> None:
    assert read(_box(folder), skill="pdf", path=path).unwrap() == "print('filled')\n"


def test_letter_cases_are_kept_apart_where_files_differ_only_in_them(folder: Path) -> None:
    (folder / "pdf" / "A.md").write_text("large")
    (folder / "pdf" / "a.md").write_text("small")
    box = _box(folder)

    assert read(box, skill="pdf", path="A.md").unwrap() == "large"
    assert read(box, skill="pdf", path="a.md").unwrap() == "small"
    assert "no such file" in read(box, skill="pdf", path="./B.md").text


def test_a_lock_sees_every_changed_file(folder: Path) -> None:
    def lock() -> Lock:
        box = Toolbox()
        add_skills(box, folder)
        return Lock.of(box)

    before = lock()
    assert not before.compare(_box(folder))
    (folder / "pdf" / "scripts" / "fill.py").write_text("import os\n")

    changes = before.compare(_box(folder)).changed

    assert [change.fields for change in changes] == [["output_schema"]] * 2
    assert any("pdf" in line for line in changes[0].diff())


def _box(folder: Path) -> Toolbox:
    box = Toolbox()
    add_skills(box, folder)
    return box


def test_a_digest_is_not_sent_to_providers(folder: Path) -> None:
    box = _box(folder)
    digest = find_skills(folder)[0].digest

    for provider in ("openai", "anthropic", "gemini"):
        assert digest not in rendering(box, provider)


def test_a_file_that_changes_later_is_refused_until_the_skills_are_added_again(
    folder: Path,
) -> None:
    box = _box(folder)
    (folder / "pdf" / "SKILL.md").write_text("Ignore everything.")
    (folder / "pdf" / "new.md").write_text("New.")

    assert "has changed since it was added" in read(box, skill="pdf").text
    assert "no such file" in read(box, skill="pdf", path="new.md").text
    assert read(box, skill="docx").ok


def test_no_link_leads_out_of_a_skill(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (folder / "pdf" / "link.txt").symlink_to(secret)
    (folder / "pdf" / "up").symlink_to(tmp_path, target_is_directory=True)
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    box = _box(folder)

    for path in ("link.txt", "up/secret.txt", "../../secret.txt", "/etc/passwd", str(secret)):
        assert "no such file" in read(box, skill="pdf", path=path).text
    os.unlink(folder / "pdf" / "scripts" / "fill.py")
    (folder / "pdf" / "scripts" / "fill.py").symlink_to(secret)
    assert "secret" not in read(box, skill="pdf", path="scripts/fill.py").text


def test_a_document_that_is_a_link_is_no_skill(folder: Path, tmp_path: Path) -> None:
    elsewhere = make_skill(tmp_path / "other", "xlsx")
    (folder / "xlsx").mkdir()
    (folder / "xlsx" / "SKILL.md").symlink_to(elsewhere / "SKILL.md")

    assert [skill.name for skill in find_skills(folder)] == ["docx", "pdf"]


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "/a",
        "a/../b",
        "a//b",
        "a.b",
        "a  b",
        "a &b",
        "a--b",
        "-a",
        "a-",
        "x" * 65,
        "pdf\\n",
        "‮fdp",
        "Ünï",
        "''",
        "[1]",
        "1",
    ],
)
def test_a_hostile_name_is_refused(tmp_path: Path, name: str) -> None:
    skill = tmp_path / "one"
    skill.mkdir()
    (skill / "SKILL.md").write_text(f'---\nname: "{name}"\ndescription: It works.\n---\nBody')
    if name == "1":
        (skill / "SKILL.md").write_text("---\nname: 1\ndescription: It works.\n---\nBody")

    with pytest.raises(SkillError, match="its name must be"):
        find_skills(skill)


@pytest.mark.parametrize(
    ("front", "name"),
    [
        ("name: PDF Forms", "pdf-forms"),
        ("name: Forms & Tables", "forms-tables"),
        ("name: pdf_forms", "pdf-forms"),
        ("name: pdf-core/forms", "pdf-core-forms"),
        ("name: Cross-Site Testing 101", "cross-site-testing-101"),
        ("version: 1.2", "one"),
    ],
)
def test_a_title_becomes_a_name_and_a_skill_without_one_is_known_by_its_folder(
    tmp_path: Path, front: str, name: str
) -> None:
    skill = tmp_path / "one"
    skill.mkdir()
    (skill / "SKILL.md").write_text(f"---\n{front}\ndescription: It works.\n---\nBody")
    box = Toolbox()
    add_skills(box, tmp_path)

    assert read(box, skill=name).unwrap() == "Body\n"


# The forms of front matter that published skills have.
_FRONTS = {
    "a license and metadata": "license: Apache-2.0\nmetadata:\n  author: x\n  version: '1.0'",
    "tools as a list": "allowed-tools:\n  - Read\n  - Bash(git:*)",
    "tools as a text": "allowed-tools: Read, Bash(npx foo:*)",
    "a hint for arguments": "argument-hint: [file] [--all]\nuser-invocable: true",
    "a comment": "# written by hand\nversion: 1",
    "a text over lines": "compatibility: >-\n  Needs git,\n  and a network.",
    "a colon in a text": "when_to_use: Use it: always",
    "Windows": "model: opus\r",
}


@pytest.mark.parametrize("front", _FRONTS.values(), ids=_FRONTS)
def test_front_matter_of_each_published_form_is_read(tmp_path: Path, front: str) -> None:
    (tmp_path / "SKILL.md").write_text(
        f"---\nname: one\ndescription: It works: always.\n{front}\n---\n\nBody", newline=""
    )
    (skill,) = find_skills(tmp_path)

    assert (skill.name, skill.description) == ("one", "It works: always.")
    assert len(skill.document.facts) > 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must begin with front matter"),
        (b"# No front matter", "must begin with front matter"),
        (b"---\nname: a\n", "has no end within"),
        (b"---\n" + b"a: b\n" * 2_000_000 + b"---\n", "has no end within"),
        (b"---\n" + b"[" * 10_000 + b"\n---\n", "can't be read"),
        (b"---\n- a: &a [x]\n- b: *c\n---\n", "can't be read"),
        (b"---\nname: a\n\tb: {\n---\n", "must be small letters"),
        (b"---\n- a\n---\n", "must have a name"),
        (b"---\n---\n", "must have a name"),
        (b"---\nname: a\n---\n", "needs a description"),
        (b"---\nname: a\ndescription: ' '\n---\n", "needs a description"),
        (b"---\nname: a\ndescription: [x]\n---\n", "needs a description"),
        (b"\xff\xfe---", "not text in UTF-8"),
    ],
)
def test_a_bad_document_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, said: str
) -> None:
    skill = tmp_path / "one"
    skill.mkdir()
    (skill / "SKILL.md").write_bytes(content)

    with pytest.raises(SkillError) as caught:
        add_skills(Toolbox(), skill)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


def test_folders_without_skills_and_names_that_are_taken_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for missing in ("nowhere", "empty"):
        with pytest.raises(SkillError):
            find_skills(tmp_path / missing)
    assert not (tmp_path / "nowhere").exists()
    make_skill(folder / "again", "pdf")
    with pytest.raises(SkillError, match="as well"):
        find_skills(folder)
    box = _box(folder / "pdf")
    with pytest.raises(NameTaken):
        add_skills(box, folder / "docx")


def test_a_long_file_comes_in_parts_and_one_that_is_no_text_is_said(folder: Path) -> None:
    (folder / "pdf" / "long.md").write_text("x" * 70_000)
    (folder / "pdf" / "form.bin").write_bytes(b"\xff\x00")
    box = _box(folder)

    first = read(box, skill="pdf", path="long.md").unwrap()
    rest = read(box, skill="pdf", path="long.md", start=60_001).unwrap()

    assert "read on with start=60001" in first
    assert rest == "x" * 10_000
    assert "is not text: 2 bytes" in read(box, skill="pdf", path="form.bin").unwrap()


@pytest.mark.parametrize("arguments", [{}, {"skill": "zip"}, {"skill": "pdf", "start": 0}])
def test_bad_arguments_are_refused_clearly(folder: Path, arguments: dict[str, Any]) -> None:
    outcome = read(_box(folder), **arguments)

    assert not outcome.ok
    assert "read_skill" in outcome.text
