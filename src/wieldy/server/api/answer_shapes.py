"""The types that answers and requests of the API are made of."""

import base64
import binascii
import json
import math
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
)

from wieldy.core.bounded_json import MAX_DEPTH, MAX_WRAPPED, dump_json, parse_json
from wieldy.core.limits.off_loop import is_large
from wieldy.core.timestamps import utc_moment, write_moment

_SHOWN = 20_000


def clean_text(value: Any) -> Any:
    """A text that can be written as UTF-8: lone surrogates become question marks."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


def clean_json(value: Any) -> Any:
    """A value from the store as JSON that every reader accepts."""
    return _clean(value, 0)


def _clean(value: Any, depth: int) -> Any:
    if depth >= MAX_DEPTH and isinstance(value, dict | list | tuple):
        return "(nested too deep to show)"
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return clean_text(value if isinstance(value, str) else str(value))


def _moment(value: Any) -> Any:
    return utc_moment(value) if isinstance(value, int | float) else value


class _Whole:
    """A large value in an answer, which is written piece by piece."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _keep_whole(value: Any, info: SerializationInfo) -> Any:
    """A value as it is; a large one is kept apart for `dump_answer`, whose context this is."""
    if info.context is None or not is_large(value):
        return value
    info.context.append(value)
    return _Whole(value)


class _PieceWriter(json.JSONEncoder):
    """Writes JSON in Python. C code would hold the interpreter until all of it is written."""

    def default(self, o: Any) -> Any:
        if isinstance(o, _Whole):
            return o.value
        if isinstance(o, datetime):
            return write_moment(o)
        return str(o)


def dump_answer(body: Any) -> str:
    """An answer, or a part of a call, as JSON; other threads go on while a large one is written."""
    whole: list[Any] = []
    if isinstance(body, BaseModel):
        plain = body.model_dump(context=whole)
        if not whole:
            return dump_json(body.model_dump(mode="json"), MAX_WRAPPED)
        return "".join(_PieceWriter().iterencode(plain))
    if is_large(body):
        return "".join(_PieceWriter(ensure_ascii=False).iterencode(body))
    return dump_json(body, MAX_WRAPPED, ensure_ascii=False, default=str)


PlainText = Annotated[str, BeforeValidator(clean_text)]
JsonValue = Annotated[Any, BeforeValidator(clean_json), PlainSerializer(_keep_whole)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Limit = Annotated[int, Field(ge=1, le=500, description="The most items of a page.")]
Cursor = Annotated[
    str | None,
    Field(max_length=4000, description="`next_cursor` of the page before; without it, the first."),
]
NextCursor = Annotated[
    str | None,
    Field(
        description="For the next page; null after the last. If few items fit, a page may have "
        "less than `limit` of them, or none, although there are more pages."
    ),
]
# A page ends after this time, because it may take long to find the few that fit among many.
SEARCH_SECONDS = 0.15


class AnswerShape(BaseModel):
    """What the API answers; it has exactly the fields that are described."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Input(BaseModel):
    """What the API is sent; other fields than those described are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CutPart(AnswerShape):
    """A part of an answer that was cut."""

    part: str = Field(description="The name of the field, which now holds the beginning as text.")
    characters: int = Field(description="How long the whole is, as JSON.")
    whole: str = Field(description="How to read the whole.")


def cut_long(part: str, value: Any, whole: bool, cuts: list[CutPart]) -> Any:
    """A value as it is, or the beginning of its JSON text if that is too long to show."""
    if whole or value is None or isinstance(value, bool | int | float):
        return clean_json(value)
    text = _write_long(value)
    if len(text) <= _SHOWN:
        return clean_json(value)
    cuts.append(CutPart(part=part, characters=len(text), whole="Ask again with ?whole=true."))
    return clean_text(text[:_SHOWN])


def _write_long(value: Any) -> str:
    """The text of a value; it is not cleaned, which takes long if it is large."""
    if isinstance(value, str):
        return value
    try:
        return dump_json(value, MAX_WRAPPED, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return dump_json(clean_json(value), MAX_WRAPPED, ensure_ascii=False)


def make_cursor(*place: Any) -> str:
    """The place where a page ends, as text for a URL."""
    return base64.urlsafe_b64encode(dump_json(place).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kinds: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The place in a cursor whose parts have these types, or None if it is no such cursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = parse_json(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        return None
    if not isinstance(place, list) or len(place) != len(kinds):
        return None
    fits = all(isinstance(each, kind) for each, kind in zip(place, kinds, strict=True))
    finite = all(math.isfinite(each) for each in place if isinstance(each, float))
    return tuple(place) if fits and finite else None
