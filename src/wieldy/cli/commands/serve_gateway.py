"""`wieldy serve gateway.toml` and `wieldy check gateway.toml`."""

import asyncio
from pathlib import Path

from wieldy.cli import exits, screen
from wieldy.cli.gateway import load_gateway, make_views
from wieldy.cli.sources import LoadedSources
from wieldy.server.config.gateway_file import GatewayFile
from wieldy.server.config.mistakes import FileMistakes, read_gateway

from .serve import ServeError, explain_serving, import_extra, is_local_host, keep_runs


def run_gateway(path: Path) -> int:
    """Serve what a gateway's file says; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        file = read_gateway(path)
        _check_reach(file)
        found = runner.run(load_gateway(file, path.parent.absolute()))
        try:
            _listen(runner, file, found)
        finally:
            runner.run(found.toolbox.close())
        return found.exit_code(exits.OK)

    return exits.guarded(work)


def run_check_gateway(path: Path, offline: bool, as_json: bool) -> int:
    """Print every mistake in a gateway's file, then what its sources say; gives the exit code."""

    def work(runner: asyncio.Runner) -> int:
        try:
            file = read_gateway(path)
        except FileMistakes as error:
            if as_json:
                screen.put({"mistakes": [each.to_dict() for each in error.mistakes]})
            else:
                screen.fail(error)
            return exits.USAGE
        failed, count = [], None
        if not offline:
            found = runner.run(load_gateway(file, path.parent.absolute()))
            runner.run(found.toolbox.close())
            failed, count = found.failed, len(found.box.names)
        if as_json:
            facts = {"tools": count, "failed": [each.to_dict() for each in failed]}
            screen.put({"mistakes": [], **facts})
        else:
            served = "" if count is None else f" It has {count} tool{'s' * (count != 1)}."
            screen.show(f"{path} has no mistakes.{served}")
        return exits.PARTLY if failed else exits.OK

    return exits.guarded(work)


def _check_reach(file: GatewayFile) -> None:
    guarded = file.access.tokens or file.access.anonymous
    if not guarded and not is_local_host(file.listen.host):
        raise ServeError(
            f"Other machines can reach {file.listen.host}, so every caller needs a token. Write "
            "tokens = true below [access], and make tokens with `wieldy token make NAME`."
        )


def _listen(runner: asyncio.Runner, file: GatewayFile, found: LoadedSources) -> None:
    run = import_extra("wieldy.server", "run", "server")
    identifiers = []
    if file.access.tokens:
        callers = import_extra("wieldy.mcp.serving.callers", "KeptTokens", "server")
        named = import_extra("wieldy.server.named_callers", "NamedCallers", "server")
        identifiers.append(named(callers(found.toolbox.store.tokens), file.callers))
    listen, tls = file.listen, file.listen.tls
    serving = run(
        found.box,
        view=found.offer,
        name=file.name,
        instructions=file.instructions,
        host=listen.host,
        port=listen.port,
        grace=listen.grace,
        hosts=listen.hosts,
        origins=listen.origins,
        max_sessions=listen.max_sessions,
        anonymous=file.access.anonymous,
        self_approval=file.access.self_approval,
        identifiers=identifiers,
        views=make_views(file, found.toolbox),
        trusted_proxies=listen.trusted_proxies,
        certificate=None if tls is None else (tls.certificate, tls.key),
        ready=lambda url: explain_serving(found, url, bool(identifiers), None),
    )
    try:
        runner.run(keep_runs(found, serving))
    except (OSError, OverflowError) as error:
        raise ServeError(
            f"Can't listen on {listen.host} port {listen.port}: {error}. "
            "Choose another port below [listen]."
        ) from error
