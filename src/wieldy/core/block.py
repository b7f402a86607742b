"""Content blocks: what a tool shows, piece by piece."""

import base64
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, ClassVar

from pydantic_core import to_json

from .bounded_json import NestedTooDeep, check_depth, check_text_depth
from .short_text import cut_counted

# Values of these types are results as they are: there is nothing to await or to iterate over.
FINAL: set[Any] = {str, int, float, bool, bytes, dict, list, tuple, type(None)}


class Showable:
    """A value that knows which blocks show it."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        FINAL.add(cls)

    def to_blocks(self, shown: "Sequence[Block]" = ()) -> "tuple[Block, ...]":
        """The blocks that show this value, after those that its call has already shown.

        A value that repeats earlier blocks returns only the new ones.
        """
        raise NotImplementedError


class Block(Showable):
    """A piece of content.

    `type` tells the kinds apart. Blocks are `Text`, `Image`, `Audio` and `Resource`.
    """

    __slots__ = ()
    type: ClassVar[str]

    def to_blocks(self, shown: "Sequence[Block]" = ()) -> "tuple[Block, ...]":
        return (self,)

    def to_dict(self) -> dict[str, Any]:
        """This block in MCP's JSON format."""
        raise NotImplementedError

    def map_text(self, change: Callable[[str], str]) -> "Block":
        """The same block with every text in it changed.

        Args:
            change: A function from a text to the new text.
        """
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{k}={_preview_value(v)}" for k, v in self.to_dict().items() if k != "type"
        )
        return f"{type(self).__name__}({fields})"


class Text(Block):
    """Text for the model or the reader.

    Args:
        text: The text.

    Example:
        `return [Text("The chart:"), Image(png)]`
    """

    __slots__ = ("text",)
    type = "text"

    def __init__(self, text: str) -> None:
        self.text = _check_text(text, "the text of a Text")

    def to_dict(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}

    def map_text(self, change: Callable[[str], str]) -> Block:
        return Text(change(self.text))


class RepeatingText(Text):
    """Text that contains everything shown before it, for readers who want all of it each time."""

    __slots__ = ()

    def texts(self) -> list[str]:
        """All texts so far, which together are one."""
        raise NotImplementedError

    def with_texts(self, texts: Sequence[str], before: str, again: bool) -> "RepeatingText":
        """The same block with other texts.

        `before` is the text that was shown earlier; `again` says whether this block was shown too.
        """
        raise NotImplementedError


class _Media(Block):
    """Bytes with a media type; `data` is base64 text."""

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes | str, mime_type: str) -> None:
        self.data = data if isinstance(data, str) else base64.b64encode(data).decode("ascii")
        self.mime_type = mime_type

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "data": self.data, "mimeType": self.mime_type}

    def map_text(self, change: Callable[[str], str]) -> Block:
        # Bytes that were changed are no picture or sound any more.
        data = change(self.data)
        return self if data == self.data else Text(data)


class Image(_Media):
    """A picture.

    Args:
        data: The bytes, or base64 text.
        mime_type: The kind of picture.

    Example:
        `return Image(path.read_bytes(), "image/jpeg")`
    """

    __slots__ = ()
    type = "image"

    def __init__(self, data: bytes | str, mime_type: str = "image/png") -> None:
        super().__init__(data, mime_type)

    def _repr_png_(self) -> bytes | None:
        """The picture for a notebook; None where it is of another kind."""
        return base64.b64decode(self.data) if self.mime_type == "image/png" else None

    def _repr_jpeg_(self) -> bytes | None:
        """The picture for a notebook; None where it is of another kind."""
        return base64.b64decode(self.data) if self.mime_type == "image/jpeg" else None


class Audio(_Media):
    """A sound.

    Args:
        data: The bytes, or base64 text.
        mime_type: The kind of sound.

    Example:
        `return Audio(path.read_bytes(), "audio/mpeg")`
    """

    __slots__ = ()
    type = "audio"

    def __init__(self, data: bytes | str, mime_type: str = "audio/wav") -> None:
        super().__init__(data, mime_type)


class Resource(Block):
    """Something with an address: its text, its bytes, or, with neither, a link to it.

    Args:
        uri: The address.
        text: The text, if it is text.
        data: The bytes or base64 text, if it is not.
        mime_type: The kind of content.
        name: A name for people.

    Example:
        `return Resource("file:///notes.md", text=notes, mime_type="text/markdown")`
    """

    __slots__ = ("data", "mime_type", "name", "text", "uri")
    type = "resource"

    def __init__(
        self,
        uri: str,
        *,
        text: str | None = None,
        data: bytes | str | None = None,
        mime_type: str | None = None,
        name: str | None = None,
    ) -> None:
        self.uri = _check_text(uri, "the uri of a Resource")
        self.text = None if text is None else _check_text(text, "the text of a Resource")
        self.data = base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
        self.mime_type = mime_type
        self.name = None if name is None else _check_text(name, "the name of a Resource")

    def to_dict(self) -> dict[str, Any]:
        facts = {"uri": self.uri, "mimeType": self.mime_type}
        if self.text is None and self.data is None:
            link = {"type": "resource_link", "name": self.name or self.uri, **facts}
            return {key: value for key, value in link.items() if value is not None}
        body = {**facts, "text": self.text, "blob": self.data}
        return {
            "type": "resource",
            "resource": {key: value for key, value in body.items() if value is not None},
        }

    def map_text(self, change: Callable[[str], str]) -> Block:
        return Resource(
            change(self.uri),
            text=None if self.text is None else change(self.text),
            data=None if self.data is None else change(self.data),
            mime_type=self.mime_type,
            name=None if self.name is None else change(self.name),
        )


class Progress:
    """How far a running call has come. A stream shows it; it is not part of the content.

    Args:
        done: How much is done.
        total: How much there is, if that is known.
        message: A word about it.
    """

    __slots__ = ("done", "message", "total")
    type = "progress"

    def __init__(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self.done = done
        self.total = total
        self.message = message

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dict."""
        return {"type": "progress", "done": self.done, "total": self.total, "message": self.message}

    def map_text(self, change: Callable[[str], str]) -> "Progress":
        """The same with its message changed."""
        message = None if self.message is None else change(to_text(self.message))
        return Progress(self.done, self.total, message)

    def __repr__(self) -> str:
        return f"Progress(done={self.done!r}, total={self.total!r}, message={self.message!r})"


class Notice(Progress):
    """A message about a running call, which is not part of its content. It has no progress.

    Args:
        message: The text.
        level: One of MCP's levels, from "debug" to "emergency".
        logger: The name of the part that says it.
    """

    __slots__ = ("level", "logger")
    type = "notice"

    def __init__(self, message: str, level: str = "info", logger: str | None = None) -> None:
        super().__init__(0, None, message)
        self.level = level
        self.logger = logger

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "notice",
            "level": self.level,
            "logger": self.logger,
            "message": self.message,
        }

    @property
    def shown_text(self) -> str | None:
        """What a person sees of it, if anything."""
        return self.message

    def map_text(self, change: Callable[[str], str]) -> "Notice":
        return Notice(change(to_text(self.message)), self.level, self.logger)

    def __repr__(self) -> str:
        return f"Notice({self.message!r}, level={self.level!r}, logger={self.logger!r})"


def read_block(shape: Mapping[str, Any]) -> Block:
    """Read a block from MCP's JSON format."""
    inner = shape.get("resource", shape)
    match shape["type"]:
        case "image":
            return Image(shape["data"], shape["mimeType"])
        case "audio":
            return Audio(shape["data"], shape["mimeType"])
        case "resource" | "resource_link":
            return Resource(
                inner["uri"],
                text=inner.get("text"),
                data=inner.get("blob"),
                mime_type=inner.get("mimeType"),
                name=inner.get("name"),
            )
    return Text(shape["text"])


def to_blocks(value: Any, shown: Sequence[Block] = ()) -> tuple[Block, ...]:
    """Convert whatever a tool returned into blocks, after those in `shown`. None has no blocks."""
    if value is None:
        return ()
    if isinstance(value, Showable):
        return value.to_blocks(shown)
    # Subclasses are excluded: one may run any code when it is iterated over.
    if type(value) in (list, tuple) and value and all(isinstance(v, Block) for v in value):
        return tuple(value)
    if type(value) in (list, tuple) and any(map(_is_picture, set(map(type, value)))):
        return tuple(block for each in value for block in to_blocks(each))
    picture = None if type(value) in FINAL else _draw_picture(value)
    return (Text(to_text(value)),) if picture is None else (picture,)


def _is_picture(kind: type) -> bool:
    """Whether values of a type are blocks, or figures that can be drawn."""
    try:
        return issubclass(kind, Image) or any(
            callable(getattr(kind, name, None)) for name in ("savefig", "_repr_png_")
        )
    except Exception:
        # Its metaclass is other people's code.
        return False


def _draw_picture(value: Any) -> Image | None:
    """The picture of a figure: of what can save itself as one, or shows itself in notebooks."""
    try:
        if callable(getattr(type(value), "savefig", None)):
            held = BytesIO()
            value.savefig(held, format="png")
            return Image(held.getvalue())
        if callable(getattr(type(value), "_repr_png_", None)):
            shown = value._repr_png_()
            # Some give facts about the picture beside it.
            data = shown[0] if isinstance(shown, tuple) else shown
            return Image(data) if isinstance(data, bytes | str) and data else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        # The value is other people's code, and may raise anything; then its text is shown.
        return None
    return None


def to_text(value: Any) -> str:
    """Convert a value to text: text stays as it is, the rest becomes JSON or else its `repr`."""
    if isinstance(value, str):
        return value
    try:
        text = to_json(value, fallback=_block_or_repr, bytes_mode="base64", inf_nan_mode="strings")
        check_text_depth(text)
        return text.decode()
    except KeyboardInterrupt:
        raise
    except BaseException:
        # The value is other people's code, and may raise anything when it is read.
        return safe_repr(value)


def join_text(blocks: Sequence[Block]) -> str:
    """Join the text of all blocks that have some."""
    return "".join(
        block.text for block in blocks if isinstance(block, Text | Resource) and block.text
    )


def _check_text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, not {type(text).__name__}")
    return text


def _block_or_repr(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Block) else safe_repr(value)


def safe_repr(value: Any) -> str:
    """A value's `repr`, or what can be said of it if it has none or is too deep."""
    try:
        check_depth(value)
        return repr(value)
    except NestedTooDeep as error:
        return f"<{type(value).__name__} {error}>"
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(value).__name__} that can't be shown>"


def _preview_value(value: Any, limit: int = 60) -> str:
    return cut_counted(repr(value), limit)
