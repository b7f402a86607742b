"""The commands `run` and `runs`: ask an agent, and show its runs."""

from enum import StrEnum
from typing import Annotated

import typer

from . import completion
from .command_options import AsJson, Store, StoreSource
from .store_choice import StoreChoice


class ApprovalChoice(StrEnum):
    """The treatment of calls that need approval."""

    ASK = "ask"
    PENDING = "pending"
    DENY = "deny"


def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Python file with an Agent named `agent`, or FILE:NAME.",
            show_default=False,
            autocompletion=completion.source_files,
        ),
    ],
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="The question to ask.", show_default=False),
    ] = None,
    approve: Annotated[
        ApprovalChoice,
        typer.Option(help="Ask about calls that need approval, leave them pending, or deny them."),
    ] = ApprovalChoice.ASK,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Continue this run. The beginning of its id is enough.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an agent a question, or continue a run.

    Prints the answer as it arrives, and a line for each tool call. If a call
    needs approval, asks you on a terminal.

    Exits with 1 if the model gives no usable answer, and with 3 if the run is
    interrupted because a call waits for approval.
    """
    from .commands.run_agent import AskedRun, run_agent  # noqa: PLC0415 - loads the agent

    raise typer.Exit(run_agent(AskedRun(source, question, resume, approve), as_json))


def runs(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Show this run in full. The beginning of its id is enough.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(help="Show only runs in this state, such as interrupted.", show_default=False),
    ] = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the runs of agents, newest first, or one run with its rounds and calls."""
    from .commands.show_runs import run_runs  # noqa: PLC0415 - loads the agent

    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_runs(choice, run_id, state, as_json))
