"""The commands below `wieldy webhooks`."""

from enum import StrEnum
from typing import Annotated

import typer

from wieldy.core.choices import DeliveryState

from .command_options import AsJson, Store, StoreSource
from .commands.webhooks import run_list_deliveries, run_list_webhooks, run_retry_delivery
from .store_choice import StoreChoice


class DeliveryChoice(StrEnum):
    """What became of a message."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


webhook_app = typer.Typer(
    help="List webhooks and the messages to them, and send a message again.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@webhook_app.command("list")
def list_webhooks(store: Store = None, source: StoreSource = None, as_json: AsJson = False) -> None:
    """Show the webhooks of all gateways on the store, and how many messages to them wait."""
    raise typer.Exit(run_list_webhooks(StoreChoice(store, tuple(source or ())), as_json))


@webhook_app.command("deliveries")
def list_deliveries(
    state: Annotated[
        DeliveryChoice | None,
        typer.Option(help="Only messages in this state.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most messages.")] = 50,
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Show the messages to webhooks, the newest first."""
    choice = StoreChoice(store, tuple(source or ()))
    wanted: DeliveryState | None = None if state is None else state.value
    raise typer.Exit(run_list_deliveries(choice, wanted, limit, as_json))


@webhook_app.command("retry")
def retry_delivery(
    delivery_id: Annotated[
        str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)
    ],
    store: Store = None,
    source: StoreSource = None,
    as_json: AsJson = False,
) -> None:
    """Have a gateway send a message again, also one that was delivered."""
    choice = StoreChoice(store, tuple(source or ()))
    raise typer.Exit(run_retry_delivery(choice, delivery_id, as_json))
