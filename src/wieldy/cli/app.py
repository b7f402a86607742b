"""The commands and their options; each does its work in a module of its own."""

from importlib.metadata import version
from typing import Annotated

import typer

from wieldy.core.choices import ChangePolicy
from wieldy.lock.lockfile import LOCK_FILE

from . import completion
from .command_options import (
    Agent,
    Arguments,
    ArgumentText,
    AsJson,
    By,
    CallId,
    Form,
    Limit,
    MoreSources,
    Name,
    Output,
    PageName,
    Provider,
    Providers,
    Session,
    Sources,
    Status,
    Store,
    StoreSource,
    ToolSources,
    Traceback,
    UnknownCall,
    UnknownCalls,
)
from .commands.artifacts import run_artifacts
from .commands.calling import Wish, run_call
from .commands.check import run_check
from .commands.demo import run_demo
from .commands.listing import run_describe, run_list
from .commands.lock import run_diff, run_lock, run_verify
from .commands.log import Filter, run_follow, run_log
from .commands.manual import run_docs
from .commands.pending import PersonVerdict, run_approve, run_deny, run_pending
from .commands.recover import SettledEnd, run_recover, run_settle
from .commands.run_agent import run_agent
from .commands.serve import ListenAddress, run_serve
from .sources import Own
from .store_choice import StoreChoice

Guard = Annotated[
    str | None,
    typer.Option("--lock", help="Hold tools to this lock file.", show_default=False),
]
OnChange = Annotated[
    ChangePolicy | None,
    typer.Option(help="What the lock does; block if not said.", show_default=False),
]
LockPath = Annotated[str, typer.Option("--lock", help="The lock file.")]
app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


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
    """A guided run: tools, schemas, streaming, repair, approval, rules, a timeout, an agent.

    On a terminal it waits for you between the steps. Elsewhere it answers for itself.
    """
    raise typer.Exit(run_demo())


@app.command("docs")
def show_docs(page: PageName = None, as_json: AsJson = False) -> None:
    """List the pages of the documentation, or show one of them."""
    raise typer.Exit(run_docs(page, as_json))


@app.command("list")
def list_tools(sources: Sources = None, as_json: AsJson = False) -> None:
    """List the tools of the sources.

    Exits with 4 if a source, or a server in one, can't be read, and with 2 if none can.
    """
    raise typer.Exit(run_list(sources, as_json))


@app.command()
def describe(
    name: Name,
    sources: Sources = None,
    provider: Provider = None,
    strict: Annotated[bool, typer.Option(help="The strict form for --provider.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say all about one tool: its description, its arguments, its schema."""
    raise typer.Exit(run_describe(name, sources, provider, strict, as_json))


@app.command()
def call(
    name: Name,
    sources: Sources = None,
    arg: Arguments = None,
    arguments: ArgumentText = None,
    session: Session = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds after which the call is stopped.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve without asking.")] = False,
    by: By = None,
    store: Store = None,
    lock: Guard = None,
    on_change: OnChange = None,
    traceback: Traceback = False,
    output: Output = Form.TEXT,
) -> None:
    """Call a tool: text as it comes, progress, and a question where it needs approval.

    --json gives the arguments here; --output json prints the outcome for programs.

    Exits with 1 if the call fails or is denied, 3 if it waits for approval.
    """
    as_json = output is Form.JSON
    wish = Wish(name, tuple(arg or ()), arguments, session, timeout, by, yes, as_json, traceback)
    raise typer.Exit(run_call(wish, sources, Own(store, lock, on_change)))


@app.command()
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Python file that has `agent`, or file.py:name.",
            show_default=False,
            autocompletion=completion.source_files,
        ),
    ],
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What to ask.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Ask an agent: its answer as it comes, a line for each call, and a question for approvals.

    Exits with 1 if the model gives no answer that can be used, 3 if a call waits for approval
    and nobody is there to decide.
    """
    raise typer.Exit(run_agent(source, question, as_json))


@app.command()
def check(
    sources: Sources = None,
    provider: Providers = None,
    strict: Annotated[bool, typer.Option(help="Check the strict form of the schemas.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what each provider would not get as the tools say it, before any request is made.

    Exits with 1 if something is lost, 2 if the tools can't be read.
    """
    raise typer.Exit(run_check(sources, provider or [], strict, as_json))


@app.command()
def serve(
    sources: Sources = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Speak over stdin and stdout instead.")
    ] = False,
    token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TOKEN",
            help="A caller and its bearer token. Default: WIELDY_TOKENS.",
            show_default=False,
        ),
    ] = None,
    max_sessions: Annotated[
        int,
        typer.Option(help="The most open sessions of clients of the older protocol.", min=1),
    ] = 1000,
    store: Store = None,
    lock: Guard = None,
    on_change: OnChange = None,
) -> None:
    """Serve the tools to MCP clients, at /mcp."""
    place = None if stdio else ListenAddress(host, port, tuple(token or ()), max_sessions)
    raise typer.Exit(run_serve(sources, Own(store, lock, on_change), place))


@app.command()
def log(
    call_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="One call, whole; the beginning of its id is enough.",
            show_default=False,
            autocompletion=completion.recorded_calls,
        ),
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option(
            help="Only this tool.", show_default=False, autocompletion=completion.recorded_tools
        ),
    ] = None,
    status: Status = None,
    session: Session = None,
    since: Annotated[
        str | None, typer.Option(help="2h, or 2026-11-01T10:00.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="The same.", show_default=False)] = None,
    limit: Limit = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the calls that were made, the newest first.

    With --follow, the newest are followed by each call as it comes and changes; with
    --json as well, each is one line.
    """
    choice = StoreChoice(store, tuple(source or ()))
    asked = Filter(tool, status, session, since, until, limit)
    if follow and call_id is None:
        raise typer.Exit(run_follow(choice, asked, as_json))
    raise typer.Exit(run_log(choice, asked, call_id, as_json))


@app.command()
def pending(
    session: Session = None,
    agent: Agent = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the calls that wait for a decision."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_pending(choice, as_json, agent, session))


@app.command()
def approve(
    call_id: CallId,
    sources: ToolSources = None,
    arg: Arguments = None,
    arguments: ArgumentText = None,
    by: By = None,
    store: Store = None,
    source: MoreSources = None,
    traceback: Traceback = False,
    output: Output = Form.TEXT,
) -> None:
    """Approve a call. With a SOURCE that has its tool it runs here, and its outcome is shown.

    Without one the decision is recorded, and a process that has the tool runs the call.
    --arg changes an argument, --json replaces them all.
    """
    verdict = PersonVerdict(call_id, by, tuple(arg or ()), arguments)
    choice = StoreChoice(store, (*(sources or ()), *(source or ())))
    raise typer.Exit(run_approve(verdict, choice, output is Form.JSON, traceback))


@app.command()
def deny(
    call_id: CallId,
    reason: Annotated[
        str | None, typer.Option(help="Why; the model is told.", show_default=False)
    ] = None,
    by: By = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Refuse a call; it never runs."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_deny(PersonVerdict(call_id, by), reason, choice, as_json))


@app.command()
def recover(
    sources: Sources = None,
    chosen: UnknownCalls = None,
    by: By = None,
    store: Store = None,
    source: MoreSources = None,
    as_json: AsJson = False,
) -> None:
    """Run again what a crash left open, where the tool is read-only or idempotent.

    Approved calls that no process has started run too.
    """
    named = [*(sources or ()), *(source or ())]
    raise typer.Exit(run_recover(named, store, chosen or (), by, as_json))


@app.command()
def settle(
    call_id: UnknownCall,
    end: Annotated[
        SettledEnd, typer.Argument(metavar="ok|error", help="How it ended.", show_default=False)
    ],
    value: Annotated[
        str | None, typer.Option(help="What it gave: JSON, or text.", show_default=False)
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="How you know, or why it failed.", show_default=False)
    ] = None,
    by: By = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Say how a call did end whose process died; it does not run again."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_settle(call_id, end, value, reason, by, choice, as_json))


@app.command()
def artifacts(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="One artifact, its text; or a handle artifact://ID@VERSION.",
            show_default=False,
        ),
    ] = None,
    session: Session = None,
    number: Annotated[
        int | None, typer.Option("--version", help="An older version.", show_default=False)
    ] = None,
    history: Annotated[bool, typer.Option("--versions", help="Its versions.")] = False,
    difference: Annotated[
        str | None,
        typer.Option(
            "--diff", metavar="OLD[..NEW]", help="What changed since.", show_default=False
        ),
    ] = None,
    limit: Limit = 50,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the artifacts of all sessions or of one, the newest first, or one of them whole."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(
        run_artifacts(choice, id, session, number, history, difference, limit, as_json)
    )


@app.command()
def lock(
    sources: Sources = None,
    path: LockPath = LOCK_FILE,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Lock what can be read, and leave the entries of the rest."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write down the definitions of the tools as they are now, and report suspicious text.

    What changed since the last time is listed. Exits with 2, and writes nothing, if a source, a
    server in one, or the lock can't be read; with 4 if --partial locked the rest.
    """
    raise typer.Exit(run_lock(sources, path, as_json, partial))


@app.command()
def verify(sources: Sources = None, path: LockPath = LOCK_FILE, as_json: AsJson = False) -> None:
    """Say whether the tools are as they were locked, and report suspicious text.

    Exits with 1 if a tool is new, gone or different, 2 if a source, a server in one, or the lock
    can't be read.
    """
    raise typer.Exit(run_verify(sources, path, as_json))


@app.command()
def diff(sources: Sources = None, path: LockPath = LOCK_FILE, as_json: AsJson = False) -> None:
    """Show line by line how the tools differ from the lock.

    Exits with 1 if they differ, 2 if a source, a server in one, or the lock can't be read.
    """
    raise typer.Exit(run_diff(sources, path, as_json))
