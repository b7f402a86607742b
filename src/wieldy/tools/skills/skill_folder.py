"""Find skills in folders, and know their files by what is in them."""

import hashlib
import os
import posixpath
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wieldy.core.canonical import digest_of
from wieldy.core.names import find_near_names
from wieldy.tools.files import DiskFiles, FileError, FileService

from .skill_document import SkillDocument, SkillError, read_document

SKILL_FILE = "SKILL.md"
SKILLS_PLACE = "/skills"
_MAX_SKILLS = 500
_MAX_FILES = 2_000
_MAX_FILE = 20_000_000
_MAX_SKILL_SIZE = 100_000_000
_MAX_DEPTH = 12
# How far below the given folder skills are looked for.
_MAX_SKILL_DEPTH = 3
# Files that other programs leave in a folder and that are no part of a skill.
_LEFT_OUT = frozenset((".git", "__pycache__", ".DS_Store"))
# How instructions that were written for other programs name the folder of their skill.
_FOLDER_WORDS = ("${CLAUDE_SKILL_DIR}/", "$CLAUDE_SKILL_DIR/", "${SKILL_DIR}/", "{baseDir}/")
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder with a `SKILL.md`, as it was when it was looked at.

    Attributes:
        document: What `SKILL.md` says.
        folder: Where it is, as a path below the folder of skills.
        files: Its files by their path in it, each with a digest of its content.
        sizes: How many bytes each of them has.
    """

    document: SkillDocument
    folder: str
    files: dict[str, str]
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.document.name

    @property
    def description(self) -> str:
        """The purpose of the skill, in its own words."""
        return self.document.description

    @property
    def digest(self) -> str:
        """A digest of all its files: it differs as soon as one of them does."""
        return digest_of(self.files)

    @property
    def place(self) -> str:
        """The path at which its scripts find it in the sandbox."""
        return f"{SKILLS_PLACE}/{self.name}"

    def find_file(self, path: str) -> str:
        """The file that a path means, as the instructions of a skill write paths.

        Args:
            path: A path in the skill, in the sandbox, or with other letter cases.

        Returns:
            The path of the file in the skill.

        Raises:
            SkillError: The skill has no such file.
        """
        if path in self.files:
            return path
        inner = path.removeprefix(f"{self.place}/")
        for word in _FOLDER_WORDS:
            inner = inner.removeprefix(word)
        inner = posixpath.normpath(inner)
        alike = [each for each in self.files if each.casefold() == inner.casefold()]
        if inner in self.files or len(alike) == 1:
            return inner if inner in self.files else alike[0]
        near = find_near_names(inner, self.files)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise SkillError(f"{self.name}/{path}", f"it has no such file{hint}")


class SkillShelf:
    """The skills below a folder. Links are not followed, and nothing leads out of a skill.

    Args:
        folder: A skill's folder, or one with folders of skills in it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        if not path.is_dir():
            raise SkillError(os.fspath(folder), "there is no such folder")
        alone = (path / SKILL_FILE).is_file()
        self._disk = DiskFiles(path.resolve().parent if alone else path)
        top: Names = (path.resolve().name,) if alone else ()
        found = [self._read(names) for names in self._find(top, _MAX_SKILL_DEPTH)]
        if not found:
            raise SkillError(os.fspath(folder), f"no folder in it has a {SKILL_FILE}")
        self.skills = _by_name(found)
        grants = {f"{skill.folder}/": ["list", "read"] for skill in found}
        try:
            self._service = FileService(self._disk, grants, _MAX_FILE)
        except FileError as error:
            raise SkillError(error.path, f"its path {error.reason}") from error

    def read(self, skill: Skill, path: str) -> bytes:
        """The content of a file of a skill; `SkillError` if it is not as it was."""
        try:
            content = self._service.read_bytes(f"{skill.folder}/{path}")
        except FileError as error:
            raise SkillError(f"{skill.name}/{path}", f"its path {error.reason}") from error
        return _check_content(skill, path, content)

    def copy(self, skill: Skill, folder: str) -> None:
        """Write the files of a skill to an empty folder; `SkillError` if one is not as it was.

        Whoever runs a script runs the copy, so what was checked can't be exchanged afterwards.
        """
        within = tuple(skill.folder[1:].split("/"))
        for path in skill.files:
            names = tuple(path.split("/"))
            try:
                content = self._disk.read((*within, *names), _MAX_FILE)
            except FileError as error:
                raise SkillError(f"{skill.name}/{path}", f"its path {error.reason}") from error
            _write_readable(folder, names, _check_content(skill, path, content))

    def _find(self, names: Names, depth: int) -> Iterator[Names]:
        inside = self._disk.list_folder(names)
        if any(each.name == SKILL_FILE and not each.is_folder for each in inside):
            yield names
            return
        for each in inside:
            if each.is_folder and depth > 0 and not each.name.startswith("."):
                yield from self._find((*names, each.name), depth - 1)

    def _read(self, names: Names) -> Skill:
        path = "/" + "/".join(names)
        files: dict[str, str] = {}
        sizes: dict[str, int] = {}
        text = ""
        try:
            for inner in self._walk_files(names, _MAX_DEPTH):
                content = self._disk.read((*names, *inner), _MAX_FILE)
                place = "/".join(inner)
                _check_name(path, place)
                files[place], sizes[place] = _hash_content(content), len(content)
                if len(files) > _MAX_FILES or sum(sizes.values()) > _MAX_SKILL_SIZE:
                    raise SkillError(path, "it has too many files, or they are too large")
                if place == SKILL_FILE:
                    text = content.decode("utf-8")
        except FileError as error:
            raise SkillError(path, error.reason) from error
        except UnicodeDecodeError:
            raise SkillError(path, f"{SKILL_FILE} is not text in UTF-8") from None
        return Skill(read_document(path, text), path, files, sizes)

    def _walk_files(self, names: Names, depth: int) -> Iterator[Names]:
        for each in self._disk.list_folder(names):
            if each.name in _LEFT_OUT:
                continue
            if not each.is_folder:
                yield (each.name,)
            elif depth > 0:
                for inner in self._walk_files((*names, each.name), depth - 1):
                    yield (each.name, *inner)


def find_skills(folder: str | os.PathLike[str]) -> list[Skill]:
    """Read the skills of a folder.

    Args:
        folder: A skill's folder, or one with folders of skills in it.

    Returns:
        The skills, by name.

    Raises:
        SkillError: There is none, or one of them can't be used.

    Example:
        `for skill in find_skills("skills"): print(skill.name, skill.description)`
    """
    return list(SkillShelf(folder).skills.values())


def _by_name(found: list[Skill]) -> dict[str, Skill]:
    if len(found) > _MAX_SKILLS:
        raise SkillError(found[0].folder, f"there are more than {_MAX_SKILLS} skills beside it")
    skills: dict[str, Skill] = {}
    for skill in sorted(found, key=lambda each: each.name):
        other = skills.setdefault(skill.name, skill)
        if other is not skill:
            raise SkillError(skill.folder, f"{other.folder} has the name {skill.name!r} as well")
    return skills


def _check_name(path: str, place: str) -> None:
    """Refuse a file whose name does not look like what it is."""
    if any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in place):
        raise SkillError(path, "a file in it has characters in its name that nobody sees")


def _check_content(skill: Skill, path: str, content: bytes) -> bytes:
    if _hash_content(content) != skill.files[path]:
        reason = "it has changed since it was added. Look at it, and add the skills again"
        raise SkillError(f"{skill.name}/{path}", reason)
    return content


def _write_readable(folder: str, names: Names, content: bytes) -> None:
    """Write a file that another user may read, and run if it says with what."""
    above = folder
    for name in names[:-1]:
        above = os.path.join(above, name)
        os.makedirs(above, exist_ok=True)
        os.chmod(above, 0o755)
    path = os.path.join(above, names[-1])
    Path(path).write_bytes(content)
    os.chmod(path, 0o755 if content.startswith(b"#!") else 0o644)


def _hash_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
