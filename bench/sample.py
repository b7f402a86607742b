"""The functions that are measured, and words about them."""

import random
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel

ARGUMENTS: dict[str, Any] = {"query": "autumn", "limit": 3, "tags": ["red", "gold"]}
ARGUMENTS_JSON = '{"query": "autumn", "limit": 3, "tags": ["red", "gold"]}'


async def find(query: str, limit: int, tags: list[str]) -> str:
    """Find leaves."""
    return query


def find_blocking(query: str, limit: int, tags: list[str]) -> str:
    """Find leaves."""
    return query


class Priority(StrEnum):
    """How soon."""

    LOW = "low"
    HIGH = "high"


class Address(BaseModel):
    """Where it goes."""

    street: str
    city: str
    zip_code: str | None = None


def make_eight() -> Callable[..., Any]:
    """A new function with eight parameters."""

    async def ship(
        order: str,
        count: int,
        address: Address,
        priority: Priority = Priority.LOW,
        carrier: Literal["road", "rail", "air"] = "road",
        weights: list[float] | None = None,
        labels: dict[str, str] | None = None,
        insured: bool = False,
    ) -> str:
        """Ship an order.

        Args:
            order: The number of the order.
            count: How many parcels.
            address: Where the parcels go.
            priority: How soon they must be there.
            carrier: How they travel.
            weights: The weight of each parcel, in kilograms.
            labels: What to print on them.
            insured: Whether they are insured.
        """
        return order

    return ship


def make_three() -> Callable[..., Any]:
    """A new function with three parameters."""

    async def look(query: str, limit: int, tags: list[str]) -> str:
        """Look something up.

        Args:
            query: The words to look for.
            limit: How many answers.
            tags: Only answers with these.
        """
        return query

    return look


def named(count: int, make: Callable[[], Callable[..., Any]]) -> Iterator[tuple[str, Any]]:
    """So many new functions, each with a name of its own."""
    return ((f"tool_{number}", make()) for number in range(count))


QUESTION = "archive the overdue invoices of a customer"
_VERBS = (
    "archive", "list", "create", "update", "delete", "export", "import", "merge", "validate",
    "schedule", "cancel", "approve", "translate", "convert", "compare", "download", "upload",
    "rename", "restore", "summarise", "publish", "assign", "measure", "notify",
)  # fmt: skip
_ADJECTIVES = (
    "overdue", "active", "hidden", "recent", "public", "draft", "shared", "monthly", "remote",
    "local", "signed", "blocked", "urgent", "weekly", "internal", "expired", "verified", "open",
)  # fmt: skip
_NOUNS = (
    "invoice", "customer", "calendar", "ticket", "branch", "image", "report", "message",
    "account", "payment", "folder", "release", "server", "webhook", "comment", "contract",
    "delivery", "device", "dashboard", "campaign", "employee", "meeting", "shipment",
    "warehouse", "supplier", "recipe", "playlist", "podcast", "sensor", "vehicle",
    "booking", "passenger", "flight", "hotel", "review", "survey", "lesson", "student",
    "teacher", "grade", "patient", "allergy", "prescription", "claim", "policy",
    "portfolio", "trade", "quote", "currency", "budget", "forecast", "pipeline", "cluster",
    "container", "secret", "certificate", "domain", "mailbox", "contact", "document",
)  # fmt: skip


def describe_many(count: int) -> list[tuple[str, str]]:
    """Names and descriptions such as real tools have, the same ones every time."""
    pick = random.Random(7).choice
    found = []
    for number in range(count):
        verb, noun, whose = pick(_VERBS), pick(_NOUNS), pick(_NOUNS)
        text = (
            f"{verb.capitalize()} the {pick(_ADJECTIVES)} {noun}s of a {whose}. "
            f"Gives each {noun} with its {pick(_NOUNS)} and the {pick(_ADJECTIVES)} {pick(_NOUNS)}."
        )
        found.append((f"{verb}_{noun}_{number}", text))
    return found
