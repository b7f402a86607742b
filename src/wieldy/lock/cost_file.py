"""Read and write `tools.cost`: what the definitions of tools were when they were last counted."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wieldy.core.bounded_json import parse_json
from wieldy.core.errors import WieldyError
from wieldy.core.visible_text import visible_json
from wieldy.wire.cost import Cost, DefinitionCost

from .file_replacement import replace_file

COST_FILE = "tools.cost"
FORMAT = 1
_MARK = "wieldy_cost"
_FORMATS = TypeAdapter(dict[str, list[DefinitionCost]])
_AGAIN = "Delete it, and the next count is the first one."


class CostFileError(WieldyError):
    """A recorded count can't be read or written.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str, reason: str, next_step: str) -> None:
        super().__init__(f"The count {path}: {reason}. {next_step}")
        self.path = path


def read_costs(path: str | os.PathLike[str]) -> dict[str, Cost]:
    """Read the recorded counts, by format; none if there is no such file.

    Raises:
        CostFileError: The file can't be read, or was not written by this version.
    """
    shown = os.fspath(path)
    try:
        found = parse_json(Path(path).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CostFileError(shown, f"it can't be read ({error})", _AGAIN) from error
    if not isinstance(found, dict) or found.get(_MARK) != FORMAT:
        raise CostFileError(shown, f"it is not a count in format {FORMAT}", _AGAIN)
    try:
        formats = _FORMATS.validate_python(found.get("formats"))
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise CostFileError(
            shown, f"{place or 'formats'} is not as it was written", _AGAIN
        ) from None
    return {name: Cost(name, tuple(definitions)) for name, definitions in formats.items()}


def write_costs(path: str | os.PathLike[str], costs: Mapping[str, Cost]) -> None:
    """Record counts, in place of those that are there.

    Raises:
        CostFileError: The file can't be written.
    """
    formats: dict[str, Any] = {
        name: [asdict(each) for each in cost.definitions] for name, cost in costs.items()
    }
    try:
        replace_file(path, visible_json({_MARK: FORMAT, "formats": formats}) + "\n")
    except OSError as error:
        reason = f"it can't be written ({error.strerror})"
        raise CostFileError(os.fspath(path), reason, "Choose another with --cost-file.") from error
