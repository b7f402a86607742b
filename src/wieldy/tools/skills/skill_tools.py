"""A tool with which a model reads the skills that it needs."""

import asyncio
import os
from typing import Annotated, Any

from pydantic import Field

from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.toolbox import Toolbox

from .skill_folder import SKILL_FILE, Skill, SkillShelf

READ = "read_skill"
_LONGEST_LISTED = 300
_MOST_CHARACTERS = 60_000
_MOST_FILES = 100
_HEAD = (
    "Read a skill: instructions for a kind of task, and the files that they refer to. Read the "
    "skill that fits before you begin with such a task.\n\nSkills:"
)


def add_skills(box: Toolbox, folder: str | os.PathLike[str]) -> list[Tool]:
    """Add a tool that lists skills in a few tokens and reads them on demand.

    A skill is a folder with a `SKILL.md`. Its name and its description are part of the tool's
    description; its instructions and files are read when the model asks for them. The tool's
    fingerprint changes with every file of every skill, so a lock notices a changed skill; a file
    that changes later is refused until the skills are added again.

    Args:
        box: The toolbox.
        folder: A skill's folder, or one with folders of skills in it.

    Returns:
        The tools that were added.

    Raises:
        SkillError: There are no skills, or one of them can't be used.
        NameTaken: The toolbox has a tool `read_skill`.

    Example:
        `add_skills(box, "skills")`
    """
    shelf = SkillShelf(folder)
    skills = shelf.skills.values()
    listed = [f"- {e.name}: {visible_line(e.description, _LONGEST_LISTED)}" for e in skills]
    reader = _SkillReader(shelf)
    tool = Tool(
        reader.read,
        name=READ,
        description="\n".join([_HEAD, *listed]),
        input_schema=_input_schema(shelf),
        # The fingerprint of the tool, and so a lock, has the digests; a model does not read them.
        output_schema={"type": "string", "$comment": _list_digests(shelf)},
        read_only=True,
        source="skills",
    )
    return [box.add(tool)]


class _SkillReader:
    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf

    async def read(
        self, skill: str, path: str = SKILL_FILE, start: Annotated[int, Field(ge=1)] = 1
    ) -> str:
        found = self._shelf.skills[skill]
        content = await asyncio.to_thread(self._shelf.read, found, path)
        if path == SKILL_FILE:
            return _excerpt(found.document.body, start) + _list_files(found)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return f"[{path} is not text: {len(content):,} bytes]"
        return _excerpt(text, start)


def _list_digests(shelf: SkillShelf) -> str:
    return ", ".join(f"{each.name} {each.digest}" for each in shelf.skills.values())


def _input_schema(shelf: SkillShelf) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "skill": {"type": "string", "enum": [*shelf.skills]},
            "path": {
                "type": "string",
                "default": SKILL_FILE,
                "description": "a file of the skill, such as reference.md",
            },
            "start": {
                "type": "integer",
                "minimum": 1,
                "default": 1,
                "description": "the character to read from",
            },
        },
        "required": ["skill"],
        "additionalProperties": False,
    }


def _excerpt(text: str, start: int) -> str:
    shown = text[start - 1 : start - 1 + _MOST_CHARACTERS]
    after = start + len(shown)
    if after > len(text):
        return shown
    return f"{shown}\n[{len(text):,} characters; read on with start={after}]\n"


def _list_files(skill: Skill) -> str:
    others = [path for path in skill.files if path != SKILL_FILE]
    if not others:
        return ""
    lines = [f"- {visible_line(p, 200)} ({skill.sizes[p]:,} bytes)" for p in others[:_MOST_FILES]]
    more = len(others) - len(lines)
    return "\n".join(["\nFiles:", *lines, *([f"- and {more:,} more"] if more else [])])
