"""The commands below `wieldy token`."""

from enum import StrEnum
from typing import Annotated

import typer

from wieldy.core.choices import Role

from .command_options import AsJson, Store, StoreSource
from .commands.tokens import (
    DEFAULT_URL,
    run_link_token,
    run_list_tokens,
    run_make_token,
    run_revoke_token,
)
from .store_choice import StoreChoice


class RoleChoice(StrEnum):
    """What the owner of a token may do."""

    CALL = "call"
    APPROVE = "approve"
    ADMINISTER = "administer"


TokenName = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose token it is.", show_default=False)
]
AdministratorToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="The token of an administrator, without a terminal. Default: WIELDY_TOKEN.",
        show_default=False,
    ),
]
token_app = typer.Typer(
    help="Make, list and revoke the access tokens of callers, and print sign-in links.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@token_app.command("make")
def make_token(
    name: TokenName,
    role: Annotated[
        list[RoleChoice] | None,
        typer.Option(
            help="What its owner may do; may be given several times. Default: call.",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(help="The name of the view that its owner sees.", show_default=False),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="When it stops working: a length of time such as 90d, or a date.",
            show_default=False,
        ),
    ] = None,
    token: AdministratorToken = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it. Only its digest is kept."""
    choice = StoreChoice(store, tuple(source or ()))
    roles: list[Role] = [each.value for each in role or [RoleChoice.CALL]]
    raise typer.Exit(run_make_token(choice, name, roles, view, expires, token, as_json))


@token_app.command("link")
def link_token(
    name: TokenName,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The address of the server, as a browser writes it.")
    ] = DEFAULT_URL,
    expires: Annotated[
        str,
        typer.Option(
            metavar="WHEN", help="When the link stops working: a length of time, or a date."
        ),
    ] = "10m",
    token: AdministratorToken = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs the owner of a token in to the console, once."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_link_token(choice, name, url, expires, token, as_json))


@token_app.command("list")
def list_tokens(store: Store = None, source: StoreSource = None, as_json: AsJson = False) -> None:
    """Show whose tokens there are, what they allow, and which no longer work."""
    raise typer.Exit(run_list_tokens(StoreChoice(store, tuple(source or ())), as_json))


@token_app.command("revoke")
def revoke_token(
    name: TokenName,
    token: AdministratorToken = None,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a token. It is refused from now on."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_revoke_token(choice, name, token, as_json))
