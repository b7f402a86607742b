"""The libraries that are measured beside wieldy, and how each is got and probed."""

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.child import ROOT, run_json
from bench.startup import beside_pydantic

# The folder of the environments, one for each library.
FOLDER = ROOT / ".venv-peers"
_INSTALL_SECONDS = 240
_IMPORTS = 5
_PROCESSES = 5


@dataclass(frozen=True, slots=True)
class Peer:
    """One library: what to install, what to import, which module here probes it."""

    name: str
    requirement: str
    statement: str
    probe: str


PEERS = (
    Peer(
        "pydantic-ai toolset",
        "pydantic-ai-slim==2.66.0",
        "from pydantic_ai import FunctionToolset",
        "pydantic_ai",
    ),
    Peer(
        "pydantic-ai manager",
        "pydantic-ai-slim==2.66.0",
        "from pydantic_ai.tool_manager import ToolManager",
        "pydantic_ai_manager",
    ),
    Peer("strands", "strands-agents==1.62.0", "from strands import tool", "strands"),
    Peer(
        "openai-agents",
        "openai-agents==0.24.0",
        "from agents import function_tool",
        "openai_agents",
    ),
    Peer("agno", "agno==3.1.10", "from agno.tools.function import Function", "agno"),
    Peer("fastmcp", "fastmcp==4.1.2", "from fastmcp import FastMCP", "fastmcp_server"),
    Peer(
        "langchain-core",
        "langchain-core==1.7.2",
        "from langchain_core.tools import StructuredTool",
        "langchain",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one library: its figures, or why there are none."""

    name: str
    version: str
    figures: dict[str, float] = field(default_factory=dict)
    failure: str | None = None


def prepare_folder(folder: Path = FOLDER) -> Path:
    """The folder, which keeps itself out of version control and of the checks."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


def measure(peer: Peer, folder: Path) -> Finding:
    """Install a library into an environment of its own and probe it there."""
    name, _, version = peer.requirement.partition("==")
    try:
        python = make_environment(folder / name, peer.requirement)
        return Finding(peer.name, version, probed(python, peer.statement, peer.probe))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        reason = str(error).strip().splitlines()
        return Finding(peer.name, version, failure=reason[-1] if reason else repr(error))


def probed(python: str, statement: str, probe: str) -> dict[str, float]:
    """The figures of one library, with the import beside pydantic's own."""
    (base_cpu, _), (cpu, mb) = beside_pydantic(statement, _IMPORTS, python)
    figures = {"import": cpu / base_cpu, "memory": mb}
    runs = [run_json([python, "-m", f"bench.peers.{probe}"]) for _ in range(_PROCESSES)]
    # The same call can be a fifth faster or slower in the next process, for all libraries alike.
    return figures | {name: median(run[name] for run in runs) for name in runs[0]}


def make_environment(folder: Path, requirement: str) -> str:
    """The Python of an environment that holds just this requirement."""
    python = folder / "bin" / "python"
    done = folder / ".requirement"
    if done.exists() and done.read_text() == requirement:
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(python), "-m", "pip", "install", "-q", requirement])
    done.write_text(requirement)
    return str(python)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
