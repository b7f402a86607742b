"""`wieldy serve gateway.toml` and `wieldy check gateway.toml`."""

import asyncio
import ssl
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wieldy.cli import exits, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.cli.gateway import find_source_mistakes, load_gateway
from wieldy.cli.live_gateway import LiveGateway
from wieldy.cli.sources import Failure, LoadedSources
from wieldy.lock.lock_review import LockState, find_lock_state
from wieldy.server.config.gateway_file import (
    GatewayFile,
    MetricsTable,
    OAuthTable,
    TasksTable,
    TlsTable,
)
from wieldy.server.config.mistakes import FileMistakes, find_rule_mistakes, read_gateway
from wieldy.server.config.webhook_tables import WebhookUnusable, make_webhooks

from .check import tell_unusable_schemas
from .serve import ServeError, explain_serving, keep_runs
from .terminal_people import TerminalPeople


def run_gateway(path: Path) -> int:
    """Serve what a gateway's file says; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        for failure in _find_bad_files(read_gateway(path), path.parent):
            raise ServeError(str(failure))
        gateway = runner.run(LiveGateway.open(path, connect=False))
        try:
            _listen_http(runner, gateway)
        finally:
            runner.run(gateway.found.toolbox.close())
        return gateway.found.exit_code(exits.OK)

    return exits.guarded(work)


def run_check_gateway(path: Path, offline: bool, as_json: bool) -> int:
    """Print every mistake in a gateway's file, then what its sources say; gives the exit code."""

    def work(runner: asyncio.Runner) -> int:
        try:
            file = read_gateway(path)
        except FileMistakes as error:
            return _tell_mistakes(error, as_json)
        misplaced = find_source_mistakes(path, file)
        if misplaced is not None:
            return _tell_mistakes(misplaced, as_json)
        if offline:
            return _report_check(path, None, as_json)
        found = runner.run(load_gateway(file, path.parent.absolute()))
        _check_webhooks(file, found)
        for failure in _find_bad_files(file, path.parent):
            found.failed.append(failure)
            screen.fail(failure)
        tell_unusable_schemas(found)
        try:
            mistakes = find_rule_mistakes(path, file, found.toolbox.all_tools())
            if mistakes is not None:
                return _tell_mistakes(mistakes, as_json)
            return _report_check(path, found, as_json)
        finally:
            runner.run(found.toolbox.close())

    return exits.guarded(work)


def _tell_mistakes(error: FileMistakes, as_json: bool) -> int:
    if as_json:
        screen.put({"mistakes": [each.to_dict() for each in error.mistakes]})
    else:
        screen.fail(error)
    return exits.USAGE


def _check_webhooks(file: GatewayFile, found: LoadedSources) -> None:
    """Report a webhook that can't be used with this environment."""
    try:
        make_webhooks(file.webhooks)
    except WebhookUnusable as error:
        failure = Failure("webhooks", str(error))
        found.failed.append(failure)
        screen.fail(failure)


def _report_check(path: Path, found: LoadedSources | None, as_json: bool) -> int:
    """Print what the sources of a file without mistakes have; gives the exit code."""
    count = None if found is None else len(found.box.names)
    failed = [] if found is None else found.failed
    changes = [] if found is None else _find_lock_changes(found)
    if as_json:
        told = [{"tool": name, **asdict(state)} for name, state in changes]
        facts = {"tools": count, "failed": [each.to_dict() for each in failed]}
        screen.put({"mistakes": [], **facts, "lock_changes": told})
    else:
        for name, state in changes:
            screen.fail(f"{name}: {state.reason}\n{state.diff}")
        served = "" if count is None else f" It has {count} tool{'s' * (count != 1)}."
        screen.show(f"{path} has no mistakes.{served}")
    if failed:
        return exits.PARTLY
    return exits.FAILED if changes else exits.OK


def _find_lock_changes(found: LoadedSources) -> list[tuple[str, LockState]]:
    """The tools that differ from the lock, with the lines that differ."""
    review = found.toolbox.review
    states = [(tool.name, find_lock_state(review, tool)) for tool in found.toolbox.all_tools()]
    return [(name, state) for name, state in states if state.reason is not None]


def _listen_http(runner: asyncio.Runner, gateway: LiveGateway) -> None:
    file, found = gateway.file, gateway.found
    run = import_extra("wieldy.server", "run", "server")
    known = _find_known(gateway)
    identifiers = known if file.access.tokens or file.access.oauth is not None else []
    people = TerminalPeople(found.toolbox, bool(identifiers))
    listen, tls = file.listen, file.listen.tls
    serving = run(
        found.box,
        view=found.offer,
        agents=found.agents,
        name=file.name,
        instructions=file.instructions,
        host=listen.host,
        port=listen.port,
        grace=listen.grace,
        hosts=listen.hosts,
        origins=listen.origins,
        max_sessions=listen.max_sessions,
        max_values=listen.max_values,
        anonymous=file.access.anonymous,
        self_approval=file.access.self_approval,
        elicitation=file.access.elicitation,
        identifiers=identifiers,
        deciders=[*people.deciders, *known],
        metrics=_read_metrics(file.metrics, gateway.path.parent),
        tasks=_read_tasks(file.tasks),
        webhooks=gateway.webhooks,
        views=gateway.views,
        trusted_proxies=listen.trusted_proxies,
        certificate=None if tls is None else _place_certificate(tls, gateway.path.parent),
        started=lambda: gateway.started,
        ready=lambda url: _tell_address(gateway, people, url),
    )

    try:
        runner.run(keep_runs(found, people.watching(_watch_file(gateway, serving))))
    except (OSError, OverflowError) as error:
        raise ServeError(
            f"Can't listen on {listen.host} port {listen.port}: {error}. "
            "Choose another port below [listen]."
        ) from error


def _tell_address(gateway: LiveGateway, people: TerminalPeople, url: str) -> None:
    if not gateway.started:
        screen.say(f"Listening at {url} while the servers are being connected.")
    gateway.when_started(lambda: explain_serving(gateway.found, url, people, None))


def _find_known(gateway: LiveGateway) -> list[Any]:
    """Who knows the callers of the file: its issuer, and its store if tokens of it are let in.

    Where the file asks for neither, people with tokens of the store decide.
    """
    access, known = gateway.file.access, gateway.people.known
    named = import_extra("wieldy.server.named_callers", "NamedCallers", "server")
    found = []
    if access.tokens or access.oauth is None:
        callers = import_extra("wieldy.mcp.serving.callers", "KeptTokens", "server")
        found.append(callers(gateway.found.toolbox.store))
    if access.oauth is not None:
        found.append(_make_issuer(access.oauth))
    return [named(each, gateway.callers, known) for each in found]


def _place_certificate(tls: TlsTable, folder: Path) -> tuple[str, str]:
    return str(folder / tls.certificate), str(folder / tls.key)


def _find_bad_files(file: GatewayFile, folder: Path) -> list[Failure]:
    """The files that the gateway itself needs to listen and that can't be used."""
    bad = []
    tls = file.listen.tls
    if tls is not None:
        try:
            # Nobody is there to type the password of a key.
            chain = _place_certificate(tls, folder)
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*chain, password="")
        except (OSError, ValueError) as error:
            said = f"its certificate or its key can't be used: {error}. They are PEM files."
            bad.append(Failure("listen.tls", said))
    try:
        _read_metrics(file.metrics, folder)
    except ServeError as error:
        bad.append(Failure("metrics.token_file", str(error)))
    return bad


def _make_issuer(table: OAuthTable) -> Any:
    issuer = import_extra("wieldy.server.oauth.issuer", "OAuthIssuer", "server")
    grant = import_extra("wieldy.server.oauth.issuer", "ClaimGrant", "server")
    grants = [
        grant(each.claim, each.has, frozenset(each.roles), each.view) for each in table.grants
    ]
    return issuer(table.issuer, table.audience, grants, table.name_claim, table.jwks_uri)


def _read_tasks(table: TasksTable) -> Any:
    """When calls become tasks; None if they never do."""
    if not table.enabled:
        return None
    tasks = import_extra("wieldy.mcp", "Tasks", "server")
    return tasks(float(table.after), table.required, table.ask_first)


def _read_metrics(table: MetricsTable, folder: Path) -> Any:
    """Build the access to the figures, with the token from its file; None if they are off."""
    if not table.enabled:
        return None
    access = import_extra("wieldy.server.metrics.metrics_endpoint", "MetricsAccess", "server")
    if table.token_file is None:
        return access(table.public)
    try:
        return access(table.public, (folder / table.token_file).read_text().strip())
    except (OSError, ValueError) as error:
        raise ServeError(f"token_file below [metrics] can't be used: {error}") from error


async def _watch_file(gateway: LiveGateway, serving: Coroutine[Any, Any, None]) -> None:
    """Serve, and meanwhile read the file again whenever it changes."""
    watching = asyncio.create_task(gateway.watch())
    try:
        await serving
    finally:
        watching.cancel()
        await asyncio.wait((watching,))
