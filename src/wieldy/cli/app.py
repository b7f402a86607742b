"""The commands and their options. The work of each command is in a module in `commands`."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from wieldy.core.choices import ChangePolicy
from wieldy.lock.cost_file import COST_FILE

from . import completion
from .agent_app import run, runs
from .backup_app import backup, restore, upgrade
from .command_options import (
    Agent,
    AlwaysShown,
    Arguments,
    ArgumentText,
    AsJson,
    Caller,
    CallId,
    CostFile,
    Isolated,
    Limit,
    MoreSources,
    Name,
    PageName,
    PersonToken,
    ProjectKind,
    Provider,
    Providers,
    Recording,
    Session,
    Sources,
    State,
    Store,
    StoreSource,
    TokenBudget,
    ToolSources,
    Traceback,
    UnknownCall,
    UnknownCalls,
    WithCodeMode,
    WithCost,
    WithSearch,
)
from .commands.artifacts import run_artifacts
from .commands.calling import Wish, run_call
from .commands.check import run_check
from .commands.check_cost import CostRecord, run_cost
from .commands.explain import AskedCall, run_explain
from .commands.init import run_init
from .commands.listing import run_describe, run_list
from .commands.lock import run_diff, run_lock, run_verify
from .commands.log import Filter, run_follow, run_log
from .commands.manual import run_docs
from .commands.pending import PersonVerdict, run_approve, run_deny, run_pending
from .commands.recover import SettledEnd, run_recover, run_settle
from .commands.serve import ListenAddress, OfferChoice, run_serve
from .sources import Own
from .store_choice import StoreChoice
from .token_app import token_app
from .webhook_app import webhook_app

Guard = Annotated[
    str | None,
    typer.Option("--lock", help="Check the tools against this lock file.", show_default=False),
]
OnChange = Annotated[
    ChangePolicy | None,
    typer.Option(
        help="What happens to a tool that differs from the lock. Default: block.",
        show_default=False,
    ),
]
LockPath = Annotated[
    str | None,
    typer.Option(
        "--lock",
        help="The lock file. Default: the one that a gateway's file names, or tools.lock.",
        show_default=False,
    ),
]
app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)

app.add_typer(token_app, name="token")
app.add_typer(webhook_app, name="webhooks")


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
    """Take a guided tour of tools, approvals, rules, timeouts and an agent.

    On a terminal the demo waits for you between the steps. Without one it answers
    its own questions.
    """
    from .commands.demo import run_demo  # noqa: PLC0415 - loads the agent

    raise typer.Exit(run_demo())


@app.command("docs")
def show_docs(page: PageName = None, as_json: AsJson = False) -> None:
    """List the documentation pages, or show one."""
    raise typer.Exit(run_docs(page, as_json))


@app.command()
def init(
    kind: Annotated[
        ProjectKind, typer.Argument(metavar="KIND", help="gateway, tools or agent.")
    ] = ProjectKind.GATEWAY,
    folder: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write starter files for a gateway, tools or an agent. Overwrites nothing."""
    raise typer.Exit(run_init(kind.value, folder, as_json))


@app.command("list")
def list_tools(sources: Sources = None, as_json: AsJson = False) -> None:
    """List the tools of the sources.

    Exits with 4 if a source, or a server in a source, can't be read, and with 2
    if no source can be read.
    """
    raise typer.Exit(run_list(sources, as_json))


@app.command()
def describe(
    name: Name,
    sources: Sources = None,
    provider: Provider = None,
    strict: Annotated[
        bool, typer.Option(help="With --provider, print the definition in strict form.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show everything about one tool: its description, arguments and schema."""
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
        typer.Option(help="Stop the call after this many seconds.", show_default=False),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Approve without asking, on a terminal or without a store.",
        ),
    ] = False,
    store: Store = None,
    lock: Guard = None,
    on_change: OnChange = None,
    traceback: Traceback = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write each block of the result to a file here.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool.

    Prints the output as it arrives and shows progress. If the call needs
    approval, asks you on a terminal.

    Exits with 1 if the call fails or is denied, and with 3 if it waits for
    approval.
    """
    wish = Wish(name, tuple(arg or ()), arguments, session, timeout, yes, as_json, traceback, out)
    raise typer.Exit(run_call(wish, sources, Own(store, lock, on_change)))


@app.command()
def explain(
    name: Name,
    sources: Sources = None,
    arg: Arguments = None,
    session: Session = None,
    agent: Agent = None,
    caller: Caller = None,
    store: Store = None,
    lock: Guard = None,
    on_change: OnChange = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a call would run, need approval or be denied, and why. Runs nothing."""
    asked = AskedCall(name, tuple(arg or ()), agent, session, caller)
    raise typer.Exit(run_explain(asked, sources, Own(store, lock, on_change), as_json))


app.command()(run)
app.command()(runs)


@app.command()
def check(
    sources: Sources = None,
    provider: Providers = None,
    strict: Annotated[bool, typer.Option(help="Check the strict form of the schemas.")] = False,
    cost: WithCost = False,
    cost_file: CostFile = COST_FILE,
    record: Recording = True,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="For a gateway.toml: check the file alone, and start no servers."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report what each provider's schema rules would drop or change. Sends no request.

    With --cost, reports what the definitions of the tools cost instead.

    Exits with 1 if something would be lost (with --cost: if a provider's cache
    is lost since the last count), and with 2 if the tools can't be read.
    """
    if cost:
        kept = CostRecord(cost_file, record)
        raise typer.Exit(run_cost(sources, provider or [], strict, kept, as_json))
    raise typer.Exit(run_check(sources, provider or [], strict, as_json, offline))


@app.command()
def serve(
    sources: Sources = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Use stdin and stdout instead of HTTP.")
    ] = False,
    token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TOKEN",
            help="A caller's name and bearer token. Default: WIELDY_TOKENS.",
            show_default=False,
        ),
    ] = None,
    stored_tokens: Annotated[
        bool,
        typer.Option(
            "--stored-tokens", help="Accept the tokens that `wieldy token make` has made."
        ),
    ] = False,
    max_sessions: Annotated[
        int,
        typer.Option(help="How many sessions clients of the older protocol may have open.", min=1),
    ] = 1000,
    isolation: Annotated[
        Isolated | None,
        typer.Option(
            help="Run the functions of Python sources in processes that can be killed.",
            show_default=False,
        ),
    ] = None,
    search: WithSearch = False,
    code_mode: WithCodeMode = False,
    budget: TokenBudget = 10_000,
    always: AlwaysShown = None,
    store: Store = None,
    lock: Guard = None,
    on_change: OnChange = None,
) -> None:
    """Serve the tools to MCP clients, over HTTP at /mcp or over stdio."""
    listening = ListenAddress(host, port, tuple(token or ()), max_sessions, stored_tokens)
    place = None if stdio else listening
    own = Own(store, lock, on_change)
    wanted = OfferChoice(search, code_mode, budget, tuple(always or ()))
    raise typer.Exit(run_serve(sources, own, place, isolation is not None, wanted))


@app.command()
def log(
    call_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Show this call in full. The beginning of its id is enough.",
            show_default=False,
            autocompletion=completion.recorded_calls,
        ),
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option(
            help="Show only calls of this tool.",
            show_default=False,
            autocompletion=completion.recorded_tools,
        ),
    ] = None,
    state: State = None,
    session: Session = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Show calls made after this time, such as 2h (ago) or 2026-11-01T10:00.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Show calls made before this time.", show_default=False),
    ] = None,
    limit: Limit = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new calls until Ctrl-C.")
    ] = False,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the recorded calls, newest first.

    With --follow, the command prints each call when it is made and whenever it
    changes. With --follow and --json, it prints one JSON object per line.
    """
    choice = StoreChoice(store, tuple(source or ()))
    asked = Filter(tool, state, session, since, until, limit)
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
    """Show the calls that wait for approval."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_pending(choice, as_json, agent, session))


@app.command()
def approve(
    call_id: CallId,
    sources: ToolSources = None,
    arg: Arguments = None,
    arguments: ArgumentText = None,
    token: PersonToken = None,
    store: Store = None,
    source: MoreSources = None,
    traceback: Traceback = False,
    as_json: AsJson = False,
) -> None:
    """Approve a waiting call, and run it if you name a SOURCE that has its tool.

    On a terminal you see the call whole and are asked. Without one, the command
    wants the token of somebody who may approve, and who has not made the call.

    Without such a SOURCE the approval is recorded, and a process that has the
    tool runs the call. --arg changes one argument; --arguments replaces all of them.
    """
    verdict = PersonVerdict(call_id, token, tuple(arg or ()), arguments)
    choice = StoreChoice(store, (*(sources or ()), *(source or ())))
    raise typer.Exit(run_approve(verdict, choice, as_json, traceback))


@app.command()
def deny(
    call_id: CallId,
    reason: Annotated[
        str | None,
        typer.Option(help="Why you deny it. The model sees this text.", show_default=False),
    ] = None,
    token: PersonToken = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Deny a waiting call. It will not run.

    On a terminal you see the call and are asked. Without one, the command wants
    the token of somebody who may decide, or of whoever made the call.
    """
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_deny(PersonVerdict(call_id, token), reason, choice, as_json))


@app.command()
def recover(
    sources: Sources = None,
    chosen: UnknownCalls = None,
    token: PersonToken = None,
    store: Store = None,
    source: MoreSources = None,
    as_json: AsJson = False,
) -> None:
    """Run interrupted calls again if their tool is read-only or idempotent.

    Approved calls that no process has started are run as well.
    """
    named = [*(sources or ()), *(source or ())]
    raise typer.Exit(run_recover(named, store, chosen or (), token, as_json))


@app.command()
def settle(
    call_id: UnknownCall,
    end: Annotated[
        SettledEnd,
        typer.Argument(metavar="ok|error", help="How the call ended.", show_default=False),
    ],
    value: Annotated[
        str | None, typer.Option(help="The call's result, as JSON or text.", show_default=False)
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(help="How you know the result, or why the call failed.", show_default=False),
    ] = None,
    token: PersonToken = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Record how an interrupted call ended. The call does not run again."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_settle(call_id, end, value, reason, token, choice, as_json))


@app.command()
def artifacts(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Print this artifact: an id, or a handle artifact://ID@VERSION.",
            show_default=False,
        ),
    ] = None,
    session: Session = None,
    number: Annotated[
        int | None,
        typer.Option("--version", help="Print this version of it.", show_default=False),
    ] = None,
    history: Annotated[bool, typer.Option("--versions", help="List its versions.")] = False,
    difference: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="OLD[..NEW]",
            help="Show what changed between two versions, or since one.",
            show_default=False,
        ),
    ] = None,
    limit: Limit = 50,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """List artifacts, newest first, or print one."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(
        run_artifacts(choice, id, session, number, history, difference, limit, as_json)
    )


@app.command()
def lock(
    sources: Sources = None,
    path: LockPath = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Lock the tools that can be read, and keep the old entries of the others.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Record the current definitions of the tools, and report suspicious text in them.

    Lists what changed since the last lock. Exits with 2 and writes nothing if a
    source, a server in a source, or the lock file can't be read. Exits with 4 if
    --partial skipped something.
    """
    raise typer.Exit(run_lock(sources, path, as_json, partial))


@app.command()
def verify(sources: Sources = None, path: LockPath = None, as_json: AsJson = False) -> None:
    """Check that the tools match the lock, and report suspicious text in them.

    Exits with 1 if a tool is new, missing or different, and with 2 if a source, a
    server in a source, or the lock file can't be read.
    """
    raise typer.Exit(run_verify(sources, path, as_json))


@app.command()
def diff(sources: Sources = None, path: LockPath = None, as_json: AsJson = False) -> None:
    """Show, line by line, how the tools differ from the lock.

    Exits with 1 if they differ, and with 2 if a source, a server in a source, or
    the lock file can't be read.
    """
    raise typer.Exit(run_diff(sources, path, as_json))


app.command()(backup)
app.command()(restore)
app.command()(upgrade)
