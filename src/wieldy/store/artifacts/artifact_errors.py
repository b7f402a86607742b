"""Errors of artifacts: the branch `ArtifactError` of the tree in `core.errors`."""

from wieldy.core.errors import WieldyError
from wieldy.core.names import shorten_name


class ArtifactError(WieldyError):
    """An artifact can't be read or changed as asked."""


class ArtifactNotFound(ArtifactError, LookupError):
    """The session has no artifact of this id, or the artifact has no such version.

    Attributes:
        id: The artifact's id.
        version: The version that was asked for, or None.
        current: The number of the current version, or None if there is no such artifact.
    """

    def __init__(self, id: str, version: int | None = None, current: int | None = None) -> None:
        if current is None:
            said = f"There is no artifact {shorten_name(id)} in this session."
        else:
            said = f"Artifact {shorten_name(id)} has no version {version}. Its last is {current}."
        super().__init__(said)
        self.id = id
        self.version = version
        self.current = current


class ArtifactTaken(ArtifactError):
    """The session has an artifact of this id already: change it, or choose another id.

    Attributes:
        id: The artifact's id.
    """

    def __init__(self, id: str) -> None:
        super().__init__(
            f"There is an artifact {shorten_name(id)} in this session already. "
            "Update or rewrite it, or choose another id."
        )
        self.id = id


class VersionConflict(ArtifactError):
    """The artifact was changed meanwhile, and nothing was written: read it again.

    Attributes:
        id: The artifact's id.
        expected: The version that the writer had seen.
        current: The number of the current version.
    """

    def __init__(self, id: str, expected: int, current: int) -> None:
        super().__init__(
            f"Artifact {shorten_name(id)} is at version {current}, and the change was made for "
            f"version {expected}. Read it again and change that."
        )
        self.id = id
        self.expected = expected
        self.current = current


class PassageNotFound(ArtifactError):
    """Neither the text to replace nor anything near it is in the artifact: send it as it is there.

    Attributes:
        id: The artifact's id.
        reason: Why nothing was replaced.
        closest: The nearest passage, or None if the search for one was given up.
        similarity: How alike that passage is, from 0 to 1.
    """

    def __init__(
        self, id: str, reason: str, closest: str | None = None, similarity: float = 0.0
    ) -> None:
        shown = ""
        if closest:
            most = 2000
            rest = len(closest) - most
            cut = f"… ({rest:,} more characters)" if rest > 0 else ""
            shown = f" The closest passage is {similarity:.0%} alike:\n{closest[:most]}{cut}"
        super().__init__(f"Artifact {shorten_name(id)} was not changed: {reason}{shown}")
        self.id = id
        self.reason = reason
        self.closest = closest
        self.similarity = similarity


class PassageRepeated(ArtifactError):
    """The text to replace is in the artifact more than once: send more of the text around it.

    Attributes:
        id: The artifact's id.
        count: How often the text is there.
    """

    def __init__(self, id: str, count: int) -> None:
        super().__init__(
            f"Artifact {shorten_name(id)} was not changed: the passage to replace is in it {count} "
            "times. Send more of the text around the one that is meant."
        )
        self.id = id
        self.count = count
