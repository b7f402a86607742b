"""`wieldy init`: write the files with which a gateway, tools or an agent begin."""

from importlib.resources import files
from pathlib import Path

from wieldy.cli import exits, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.core.errors import WieldyError

# By the name of the file that is written: the template, and what to try with it.
_TEMPLATES = {
    "gateway.toml": ("gateway.toml", "wieldy serve gateway.toml"),
    "tools.py": ("tools.txt", "wieldy list tools.py"),
    "agent.py": ("agent.txt", 'wieldy run agent.py "What is 2 + 3?"'),
}
_SCHEMA = "gateway.schema.json"
# The template files of each kind of project.
KINDS = {
    "gateway": ("gateway.toml", "tools.py"),
    "tools": ("tools.py",),
    "agent": ("agent.py", "tools.py"),
}


class InitError(WieldyError):
    """The files can't be written."""


def run_init(kind: str, folder: Path, as_json: bool) -> int:
    """Write the files of a kind that are not there yet; returns the exit code."""

    def work(runner: object) -> int:
        texts = {name: _read_template(_TEMPLATES[name][0]) for name in KINDS[kind]}
        if kind == "gateway":
            write_schema = import_extra("wieldy.server.config.mistakes", "write_schema", "server")
            texts[_SCHEMA] = write_schema() + "\n"
        written = [name for name, text in texts.items() if _write_new(folder / name, text)]
        if as_json:
            kept = [name for name in texts if name not in written]
            screen.put({"folder": str(folder), "written": written, "kept": kept})
            return exits.OK
        for name in texts:
            done = "wrote" if name in written else "kept, because it is there already:"
            screen.show(f"{done} {folder / name}")
        screen.say(f"Try: {_TEMPLATES[KINDS[kind][0]][1]}")
        return exits.OK

    return exits.guarded(work)


def _read_template(name: str) -> str:
    return (files("wieldy.cli") / "templates" / name).read_text(encoding="utf-8")


def _write_new(path: Path, text: str) -> bool:
    """Write a file unless it is there; returns whether it was written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        raise InitError(f"{path} can't be written: {error}.") from error
    return True
