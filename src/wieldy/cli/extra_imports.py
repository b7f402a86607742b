"""Import what needs an extra, or say how to install it."""

from importlib import import_module
from typing import Any

from wieldy.core.errors import WieldyError


class ExtraMissing(WieldyError):
    """Packages of an extra are not installed."""


def import_extra(module: str, name: str, extra: str) -> Any:
    """A function that needs an extra; `ExtraMissing` with the install command if it is missing."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ExtraMissing(
            f'This needs more packages ({error}): pip install "wieldy[{extra}]"'
        ) from error
