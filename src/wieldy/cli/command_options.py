"""The arguments and options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer

from . import completion


class ProjectKind(StrEnum):
    """What a folder of files begins."""

    GATEWAY = "gateway"
    TOOLS = "tools"
    AGENT = "agent"


class Isolated(StrEnum):
    """The place where the functions of a source run, if it is not the one that the source names."""

    PROCESS = "process"


Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="A Python file or module:name with a Toolbox, an mcpServers file, an OpenAPI "
        "document, a URL, or a gateway.toml. Default: WIELDY_SOURCE, then tools.py.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
ToolSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="The source of the call's tool, such as tools.py. The call runs here only with it.",
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
        metavar="NAME",
        help="The name of the tool.",
        show_default=False,
        autocompletion=completion.tools,
    ),
]
CallId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The call's id, or the beginning of it.",
        show_default=False,
        autocompletion=completion.waiting_calls,
    ),
]
UnknownCall = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The call's id, or the beginning of it.",
        show_default=False,
        autocompletion=completion.unknown_calls,
    ),
]
UnknownCalls = Annotated[
    list[str] | None,
    typer.Option(
        "--call",
        metavar="ID",
        help="Run this call again, whatever its tool is. Make sure first that this is safe.",
        show_default=False,
        autocompletion=completion.unknown_calls,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The store: sqlite:///FILE or postgresql://… Default: WIELDY_STORE, then wieldy.db.",
        show_default=False,
    ),
]
StoreSource = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Use the store of this source, such as tools.py or gateway.toml, instead of --store.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
MoreSources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Another way to give SOURCE.",
        show_default=False,
        autocompletion=completion.source_files,
    ),
]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="If the tool raises, show the traceback.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument, read according to the tool's schema. @FILE reads it from a file.",
        show_default=False,
    ),
]
ArgumentText = Annotated[
    str | None,
    typer.Option(
        "--arguments",
        metavar="OBJECT",
        help="All arguments as a JSON object, or @FILE.",
        show_default=False,
    ),
]
PersonToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="The token of the person who decides. Default: WIELDY_TOKEN, then the person at the "
        "terminal.",
        show_default=False,
    ),
]
Agent = Annotated[str | None, typer.Option(help="The agent of the calls.", show_default=False)]
Caller = Annotated[str | None, typer.Option(help="Who asks for the call.", show_default=False)]
Session = Annotated[
    str | None, typer.Option(help="The session of the calls or artifacts.", show_default=False)
]
Providers = Annotated[
    list[str] | None,
    typer.Option(
        help="Check for this provider. Default: all providers.",
        show_default=False,
        autocompletion=completion.providers,
    ),
]
WithCost = Annotated[
    bool,
    typer.Option("--cost", help="Count tokens instead, and say what broke the provider's cache."),
]
CostFile = Annotated[str, typer.Option(metavar="FILE", help="Where --cost records what it counts.")]
Recording = Annotated[
    bool,
    typer.Option("--record/--no-record", help="Whether --cost replaces the recorded count."),
]
WithSearch = Annotated[
    bool,
    typer.Option(
        "--search", help="Show clients a few tools, with which they find and load the others."
    ),
]
WithCodeMode = Annotated[
    bool,
    typer.Option(
        "--code-mode",
        help="Show clients one tool, run_code, whose programs call the others as functions.",
    ),
]
TokenBudget = Annotated[
    int,
    typer.Option(
        help="With --search or --code-mode: how many tokens the tools shown, or the functions "
        "described, may take.",
        min=1,
    ),
]
AlwaysShown = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help='With --search or --code-mode: a tool, or a pattern such as "files_*", that is '
        "always shown.",
        show_default=False,
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        help="Print the definition as it is sent to this provider.",
        show_default=False,
        autocompletion=completion.providers,
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        help="Show only calls in this state.",
        show_default=False,
        autocompletion=completion.call_states,
    ),
]
Limit = Annotated[int, typer.Option(help="How many to show at most; 0 shows all.")]
