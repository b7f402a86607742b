"""Tools with which a model reads the skills that it needs, and runs their scripts."""

import asyncio
import os
from typing import Annotated, Any

from pydantic import Field

from wieldy.core.errors import NameTaken
from wieldy.core.tool import Permission, Tool
from wieldy.core.visible_text import visible_line
from wieldy.toolbox import Toolbox
from wieldy.tools.code import SandboxLimits
from wieldy.tools.code.sandbox import SandboxKind
from wieldy.tools.code.workspaces import find_service
from wieldy.tools.files import FileService

from .skill_folder import SKILL_FILE, Skill, SkillShelf
from .skill_scripts import SkillScripts, has_scripts

READ, RUN = "read_skill", "run_skill_script"
# How much of all descriptions is listed together, and of each one at the least and at the most.
_LISTED_TOGETHER = 12_000
_SHORTEST_LISTED, _MAX_LISTED = 120, 1_024
_MAX_CHARACTERS = 60_000
_MAX_FILES = 100
_MAX_ARGUMENTS = 200
_RUN_HEAD = (
    "Run a script of a skill in a sandbox without network, and give what it prints. Read the skill "
    "first.\n\nThe working folder is /workspace; files in it stay for later calls, and pictures "
    "that are saved there are shown. The skill is in /skills/NAME, and can only be read there."
)
_HEAD = (
    "Read a skill: instructions for a kind of task, and the files that they refer to. Read the "
    "skill that fits before you begin with such a task.\n\nSkills:"
)


def add_skills(
    box: Toolbox,
    folder: str | os.PathLike[str],
    *,
    scripts: bool = True,
    files: FileService | str | os.PathLike[str] | None = None,
    limits: SandboxLimits | None = None,
    sandbox: SandboxKind = "bubblewrap",
) -> list[Tool]:
    """Add `read_skill`, which lists skills in a few tokens, and `run_skill_script`.

    A skill is a folder with a `SKILL.md`. Its name and its description are part of the tool's
    description; its instructions and files are read when the model asks for them. Its scripts run
    in the sandbox of the code tools, and ask first. The fingerprints of the tools change with
    every file of every skill, so a lock notices a changed skill; a file that changes later is
    refused until the skills are added again.

    Args:
        box: The toolbox.
        folder: A skill's folder, or one with folders of skills in it.
        scripts: Whether scripts can be run. The tool for it is added if a skill has some.
        files: A file service, or the folder of one, whose `/workspace/` is the working folder of
            scripts. Without it they work where the code tools of this toolbox do, or, if it has
            none, in a folder of each session.
        limits: What a script may use.
        sandbox: "bubblewrap", or "unprotected": a plain process of this user, which can read,
            change and send whatever this user can.

    Returns:
        The tools that were added.

    Raises:
        SkillError: There are no skills, or one of them can't be used.
        NameTaken: The toolbox has a tool of one of these names.
        ValueError: The service does not grant `/workspace/`.

    Example:
        `add_skills(box, "skills")`
    """
    shelf = SkillShelf(folder)
    runnable = [skill.name for skill in shelf.skills.values() if has_scripts(skill)]
    if not scripts or not runnable:
        return [box.add(_reading_tool(shelf))]
    runner = SkillScripts(box, shelf, find_service(files), limits, sandbox)
    reader = box.add(_reading_tool(shelf))
    try:
        added = box.add(_running_tool(shelf, runner, runnable))
    except NameTaken:
        box.remove(reader.name)
        raise
    box.close_with(runner)
    return [reader, added]


def _reading_tool(shelf: SkillShelf) -> Tool:
    skills = shelf.skills.values()
    share = max(_SHORTEST_LISTED, min(_MAX_LISTED, _LISTED_TOGETHER // len(skills)))
    listed = [f"- {each.name}: {visible_line(each.description, share)}" for each in skills]
    return Tool(
        _SkillReader(shelf).read,
        name=READ,
        description="\n".join([_HEAD, *listed]),
        input_schema=_reading_schema(shelf),
        # The fingerprint of the tool, and so a lock, has the digests; a model does not read them.
        output_schema={"type": "string", "$comment": _list_digests(shelf)},
        read_only=True,
        source="skills",
    )


def _running_tool(shelf: SkillShelf, runner: SkillScripts, runnable: list[str]) -> Tool:
    return Tool(
        runner.run,
        name=RUN,
        description=_RUN_HEAD,
        input_schema=_running_schema(runnable),
        # Approvals and standing permissions no longer count when a skill has changed.
        output_schema={"$comment": _list_digests(shelf)},
        permission=Permission.CONFIRM,
        destructive=True,
        source="skills",
    )


class _SkillReader:
    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf

    async def read(
        self, skill: str, path: str = SKILL_FILE, start: Annotated[int, Field(ge=1)] = 1
    ) -> str:
        found = self._shelf.skills[skill]
        path = found.find_file(path)
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


def _reading_schema(shelf: SkillShelf) -> dict[str, Any]:
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


def _running_schema(runnable: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "skill": {"type": "string", "enum": runnable},
            "script": {
                "type": "string",
                "description": "a file of the skill, such as scripts/make.py",
            },
            "arguments": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": _MAX_ARGUMENTS,
                "default": [],
                "description": "the words after the script on its command line",
            },
        },
        "required": ["skill", "script"],
        "additionalProperties": False,
    }


def _excerpt(text: str, start: int) -> str:
    shown = text[start - 1 : start - 1 + _MAX_CHARACTERS]
    after = start + len(shown)
    if after > len(text):
        return shown
    return f"{shown}\n[{len(text):,} characters; read on with start={after}]\n"


def _list_files(skill: Skill) -> str:
    others = [path for path in skill.files if path != SKILL_FILE]
    if not others:
        return ""
    lines = [f"- {visible_line(p, 200)} ({skill.sizes[p]:,} bytes)" for p in others[:_MAX_FILES]]
    more = len(others) - len(lines)
    return "\n".join(["\nFiles:", *lines, *([f"- and {more:,} more"] if more else [])])
