"""Programs that start in a few milliseconds, because fork servers have loaded their modules.

Most of the time of a short program goes into loading modules, and the tests start hundreds. Each
still has a process, a folder, an environment and streams of its own. Tests of what a program loads
and of how it starts use a fresh interpreter.
"""

import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.forking.launcher import ask_for_program, read_end

INSTALLED = str(Path(sys.executable).parent / "wieldy")
_HERE = Path(__file__).parent
# Every script may load these; what is ours is loaded in the fork, as by the script itself.
_LIBRARIES = (
    "httpx2",
    "jwt",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server.mcpserver",
    "prometheus_client",
    "rich.console",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
    "truststore",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
)
# The parts that most commands need.
_OF_THE_COMMAND = ("wieldy.cli.app", "wieldy.store.store", "wieldy.agent", *_LIBRARIES)
_COMMAND = "wieldy.cli:main"
_servers: list["subprocess.Popen[bytes]"] = []


def launch_file(script: Path) -> str:
    """A file that can be started in the place of a script, under the same name."""
    return _write_file(script.name, find_server(_LIBRARIES), str(script))


def run_forked(
    words: list[str],
    folder: Path | None,
    environment: dict[str, str],
    seconds: float,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end. If `together`, errors are written among the output."""
    address = find_server(_OF_THE_COMMAND)
    return _run(address, _COMMAND, [INSTALLED, *words], folder, environment, seconds, together)


def run_script(
    script: Path, folder: Path, environment: dict[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    address = find_server(_LIBRARIES)
    return _run(address, str(script), [str(script)], folder, environment, seconds)


def _run(
    address: str,
    target: str,
    words: list[str],
    folder: Path | None,
    environment: dict[str, str],
    seconds: float,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program. It writes into files, so that a reader can't hold it up."""
    with (
        tempfile.TemporaryFile("a+b") as out,
        tempfile.TemporaryFile("a+b") as err,
        open(os.devnull) as nothing,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.settimeout(seconds)
        connection.connect(address)
        streams = [file.fileno() for file in (nothing, out, out if together else err)]
        place = str(folder or Path.cwd())
        ask_for_program(connection, target, words, place, environment, streams)
        code = read_end(connection)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *texts)


@cache
def find_server(modules: tuple[str, ...], prefix: tuple[str, ...] = ()) -> str:
    """The address of a server that has loaded some modules, and is started with a prefix."""
    folder = tempfile.mkdtemp(prefix="wieldy-forks-")
    # For first lines of scripts, which can name no path with a space or of more than 127 letters.
    Path(folder, "python").symlink_to(sys.executable)
    address = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(100)
        number = listener.fileno()
        words = [sys.executable, "-B", str(_HERE / "fork_server.py"), folder, str(number)]
        # Kept, because the server ends when the pipe to it is closed.
        _servers.append(
            subprocess.Popen(
                [*prefix, *words, *modules],
                stdin=subprocess.PIPE,
                pass_fds=[number],
                start_new_session=True,
            )
        )
    return address


def _write_file(name: str, address: str, target: str, called: str = "") -> str:
    # Two programs may have the same name.
    servers = Path(address).parent
    file = Path(tempfile.mkdtemp(dir=servers), name)
    file.write_text(
        f"#!{servers}/python -IS\n"
        "import sys\n"
        f"sys.path.insert(0, {str(_HERE)!r})\n"
        "from launcher import launch\n"
        f"launch({address!r}, {target!r}, {called or target!r})\n"
    )
    file.chmod(0o755)
    return str(file)


# A file that can be started in the place of the installed command.
WIELDY = _write_file("wieldy", find_server(_OF_THE_COMMAND), _COMMAND, INSTALLED)
