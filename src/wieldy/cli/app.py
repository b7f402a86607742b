"""The commands and their options; each does its work in a module of its own."""

from importlib.metadata import version
from typing import Annotated

import typer

from .check import run_check
from .demo import run_demo

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Source = Annotated[
    str,
    typer.Argument(help="A Python file or module:name with a Toolbox.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.callback(invoke_without_command=True)
def wieldy(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """The tool layer for LLM agents."""
    if show_version:
        typer.echo(f"wieldy {version('wieldy')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo() -> None:
    """A guided run: tools, schemas, streaming, repair, approval, rules and a timeout.

    On a terminal it waits for you between the steps. Elsewhere it answers for itself.
    """
    raise typer.Exit(run_demo())


@app.command()
def check(
    source: Source,
    provider: Annotated[
        list[str] | None,
        typer.Option(help="A provider to check for; all when not given.", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option(help="Check the strict form of the schemas.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what each provider would not get as the tools say it, before any request is made.

    Exits with 1 if something is lost, 2 if the tools can't be read.
    """
    raise typer.Exit(run_check(source, provider or [], strict, as_json))
