"""Read the environment variables of the command. No other module of it reads any.

docs/command-line.md lists the variables.
"""

import getpass
import os
import shlex
import stat
from pathlib import Path

from wieldy.core.errors import WieldyError
from wieldy.store.retention import Retention
from wieldy.toolbox import Toolbox

_DEFAULT_STORE = Path("wieldy.db")
_DEFAULT_SOURCE = Path("tools.py")


class SettingMissing(WieldyError):
    """A required setting is neither given nor in the environment."""


def store_url(given: str | None, create: bool = False) -> str:
    """The address of the store: as given, from the environment, or `wieldy.db` if it exists.

    A file that does not exist is refused, unless the command may create it.
    """
    url = given or default_store()
    if url is None:
        raise SettingMissing(
            "No store is named, and there is no wieldy.db in this folder. Name one with "
            "--store sqlite:///FILE or the variable WIELDY_STORE, or name a Python file whose "
            "toolbox has a store, or a gateway.toml, with --source."
        )
    if not create:
        check_file(url)
    return url


def store_box(store: str | None, create: bool = False) -> Toolbox:
    """A toolbox without tools over a store; it prunes nothing, because others own the data."""
    return Toolbox(store=store_url(store, create), retention=Retention.unbounded())


def default_store() -> str | None:
    """The store to use if none is given, or None."""
    named = os.environ.get("WIELDY_STORE")
    return named or (f"sqlite:///{_DEFAULT_STORE}" if _DEFAULT_STORE.is_file() else None)


def sources(given: list[str] | None) -> list[str]:
    """The sources to read: as given, from the environment, or `tools.py` if it exists."""
    named = given or shlex.split(os.environ.get("WIELDY_SOURCE", ""))
    if not named and _DEFAULT_SOURCE.is_file():
        named = [str(_DEFAULT_SOURCE)]
    if not named:
        raise SettingMissing(
            "No SOURCE is named, and there is no tools.py in this folder. Name a Python file, "
            "module:name, an mcpServers file, an OpenAPI document or a URL after the command, "
            "or in the variable WIELDY_SOURCE."
        )
    return named


def tokens(given: list[str] | None) -> dict[str, str]:
    """The bearer tokens of a server by name: as given, or from the environment."""
    pairs = given or shlex.split(os.environ.get("WIELDY_TOKENS", ""))
    found = {}
    for pair in pairs:
        name, _, token = pair.partition("=")
        if not name or not token:
            # The message does not repeat the text, because it may be the token itself.
            raise SettingMissing("A token is given as NAME=TOKEN, with --token or WIELDY_TOKENS.")
        found[name] = token
    return found


def person_token(given: str | None) -> str | None:
    """The token of the person who decides by a command: as given, or from the environment."""
    return given or os.environ.get("WIELDY_TOKEN") or None


def wants_color() -> bool:
    """Whether output on a terminal may have colours and styles; see no-color.org."""
    return not os.environ.get("NO_COLOR")


def user() -> str:
    """The name of the system's user, which is recorded for a decision without a token.

    Where the system itself says who that is, no variable of the environment says otherwise.
    """
    try:
        import pwd  # noqa: PLC0415 - Windows has no such module

        return pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        return getpass.getuser()
    except KeyError:
        # A container may have no name for its user.
        return f"uid {os.getuid()}"


def is_missing(path: Path) -> bool:
    """Whether there is no such file. One that may not be looked at is there.

    `Path.is_file` raises an error for it before Python 3.14, and is false from then on.
    """
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False


def check_file(url: str) -> None:
    """Refuse a SQLite file that does not exist, because opening it would create an empty one."""
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - only where a store is used
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        address = make_url(url)
        path = Path((address.get_backend_name() == "sqlite" and address.database) or ":memory:")
    except ArgumentError:
        # Opening the store reports what is wrong with the address.
        return
    if str(path) != ":memory:" and is_missing(path):
        said = f"There is no store at {path}."
        if not path.is_absolute():
            said += (
                f" The path is relative, so this is {path.absolute()}. "
                "An absolute path needs four slashes: sqlite:////…"
            )
        raise SettingMissing(said)
