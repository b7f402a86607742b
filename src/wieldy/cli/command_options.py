"""The arguments and options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer

from . import completion


class Form(StrEnum):
    """How a result is written."""

    TEXT = "text"
    JSON = "json"


Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="A Python file or module:name with a Toolbox, an mcpServers file, "
        "an OpenAPI document, or a URL. Default: WIELDY_SOURCE, then tools.py.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
ToolSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Where the call's tool is, such as tools.py; without one the call does not run here.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
PageName = Annotated[
    str | None,
    typer.Argument(
        metavar="PAGE",
        help="The page to show, such as first-tool.",
        show_default=False,
        autocompletion=completion.doc_pages,
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The tool.", show_default=False, autocompletion=completion.tools
    ),
]
CallId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The call's id, or how it begins.",
        show_default=False,
        autocompletion=completion.waiting_calls,
    ),
]
UnknownCall = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The call's id, or how it begins.",
        show_default=False,
        autocompletion=completion.unknown_calls,
    ),
]
UnknownCalls = Annotated[
    list[str] | None,
    typer.Option(
        "--call",
        metavar="ID",
        help="Run this call again, whatever its tool is; you have looked it up.",
        show_default=False,
        autocompletion=completion.unknown_calls,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Output = Annotated[
    Form,
    typer.Option("--output", "-o", help="json prints the outcome for programs."),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="sqlite:///FILE or postgresql://… Default: WIELDY_STORE, then wieldy.db.",
        show_default=False,
    ),
]
StoreSource = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Use the store of this source, such as tools.py, instead of --store.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
MoreSources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="The same as SOURCE after the command.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show where the tool raised, if it does.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument, read by the tool's schema; @FILE is what a file holds.",
        show_default=False,
    ),
]
ArgumentText = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="OBJECT",
        help="All arguments as a JSON object, or @FILE.",
        show_default=False,
    ),
]
By = Annotated[
    str | None,
    typer.Option(help="Who decides. Default: your login name.", show_default=False),
]
Agent = Annotated[str | None, typer.Option(help="The agent of the calls.", show_default=False)]
Session = Annotated[str | None, typer.Option(help="The session of the calls.", show_default=False)]
Providers = Annotated[
    list[str] | None,
    typer.Option(
        help="A provider to check for; all when not given.",
        show_default=False,
        autocompletion=completion.providers,
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        help="Print the definition that this provider is sent.",
        show_default=False,
        autocompletion=completion.providers,
    ),
]
Status = Annotated[
    str | None,
    typer.Option(
        help="Only calls in this state.",
        show_default=False,
        autocompletion=completion.statuses,
    ),
]
Limit = Annotated[int, typer.Option(help="The most to show; 0 is all.")]
