"""The prompts of an agent and a request, which consist of slots."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Self

from wieldy.core.bounded_json import check_depth

from .nested_data import (
    copy_containers,
    fill_name,
    fill_placeholders,
    get_dotted,
    merge_values,
    nest_dotted,
)

SLOTS = (
    "system",
    "developer",
    "chat_history",
    "info",
    "tools",
    "action_results",
    "instruct",
    "examples",
    "input",
    "attachment",
    "output",
    "output_format",
    "options",
)
# How many unsent requests are kept after their tasks and threads have ended.
_MAX_DRAFTS = 64
_MISSING = object()


class Prompt:
    """Slots and their values. A prompt inherits the slots that it does not set from its parent.

    Between the two, and where a slot is set again, dicts merge, lists extend, and anything
    else is overridden. `system.rule` is a key inside a slot; other names with a dot are
    names of extra slots.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, parent: "Prompt | None" = None
    ) -> None:
        self._slots: dict[str, Any] = dict(values or {})
        self._parent = parent

    def get(self, key: str | None = None, default: Any = None, inherit: bool = True) -> Any:
        """The value of a slot, or without a key all slots as a dict."""
        if key is None:
            return self.values(inherit) or ({} if default is None else default)
        return copy_containers(get_dotted(self._merged(inherit), key, default))

    def set(self, key: str, value: Any, mappings: Mapping[str, Any] | None = None) -> Self:
        """Set a slot; `mappings` fill in each `${name}` of the key and of the value.

        Raises:
            ValueError: The value has more than 100 levels, or contains itself.
        """
        name, given = fill_name(key, mappings), fill_placeholders(value, mappings)
        # What a placeholder stands for may be as deep as the value around it.
        check_depth(given)
        filled = copy_containers(given)
        if name.partition(".")[0] in SLOTS and "." in name:
            self._nest_value(name, filled)
        else:
            own = self._own()
            own[name] = merge_values(own[name], filled) if name in own else filled
        return self

    def update(self, values: Mapping[str, Any], mappings: Mapping[str, Any] | None = None) -> Self:
        """Set several slots."""
        for key, value in values.items():
            self.set(key, value, mappings)
        return self

    def append(self, key: str, value: Any, mappings: Mapping[str, Any] | None = None) -> Self:
        """Add one item to a slot that is a list."""
        before = self.get(key, inherit=False)
        if before is not None and not isinstance(before, list):
            self.replace(key, [before])
        return self.set(key, [value], mappings)

    def replace(self, key: str, value: Any) -> Self:
        """Set a slot to exactly this value, whatever was there."""
        check_depth(value)
        self.remove(key)
        return self.set(key, value)

    def remove(self, key: str) -> Self:
        """Remove a slot from this prompt."""
        self._own().pop(key, None)
        return self

    def clear(self) -> None:
        """Remove all slots from this prompt."""
        self._own().clear()

    def values(self, inherit: bool = True) -> dict[str, Any]:
        """All slots with copies of their values."""
        return copy_containers(self._merged(inherit))  # type: ignore[no-any-return]

    def to_yaml_prompt(self, inherit: bool = False) -> str:
        """The slots as YAML that `load_yaml_prompt` takes."""
        # The YAML library is an extra, so it is loaded only when a document is written.
        from .prompt_document import write_yaml  # noqa: PLC0415

        return write_yaml(self.values(inherit))

    def to_json_prompt(self, inherit: bool = False) -> str:
        """The slots as JSON that `load_json_prompt` takes."""
        from .prompt_document import write_json_text  # noqa: PLC0415 - as above

        return write_json_text(self.values(inherit))

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __contains__(self, key: str) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def __iter__(self) -> Iterator[str]:
        return iter(self.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.values()!r})"

    def _merged(self, inherit: bool = True) -> dict[str, Any]:
        """All slots; their values are not copied."""
        own = self._read()
        if inherit and self._parent is not None:
            return merge_values(self._parent._merged(), own)  # type: ignore[no-any-return]
        return own

    def _nest_value(self, name: str, value: Any) -> None:
        slot, _, rest = name.partition(".")
        own = self._own()
        before = own.get(slot)
        if slot in own and not isinstance(before, dict):
            # A plain text that was set before is kept beside the new keys.
            before = {"instruction": before}
        nested = nest_dotted(rest, value)
        check_depth(nested)
        own[slot] = merge_values(before or {}, nested)

    def _own(self) -> dict[str, Any]:
        """The slots to write to."""
        return self._slots

    def _read(self) -> dict[str, Any]:
        """The slots to read."""
        return self._slots


class RequestPrompt(Prompt):
    """The prompt of the request that is being written; there is one for each task and thread.

    So `agent.input(question).start()` in two threads, or in two tasks, are two requests.
    One that was written in another task or thread is used where it is the only one: it may
    be written here and started there.
    """

    def __init__(self, parent: Prompt) -> None:
        super().__init__(parent=parent)
        self._drafts: dict[Any, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def take(self) -> dict[str, Any]:
        """The slots with what they inherit, and an empty prompt for the next request."""
        with self._lock:
            key, draft = self._find_draft()
            self._drafts.pop(key, None)
        parent = {} if self._parent is None else self._parent.values()
        return copy_containers(merge_values(parent, draft))  # type: ignore[no-any-return]

    def clear(self) -> None:
        with self._lock:
            self._drafts.pop(self._find_draft()[0], None)

    def _own(self) -> dict[str, Any]:
        owner = _current_owner()
        with self._lock:
            if owner not in self._drafts and len(self._drafts) >= _MAX_DRAFTS:
                self._drafts = {each: d for each, d in self._drafts.items() if _is_alive(each)}
            return self._drafts.setdefault(owner, {})

    def _read(self) -> dict[str, Any]:
        with self._lock:
            return self._find_draft()[1]

    def _find_draft(self) -> tuple[Any, dict[str, Any]]:
        """The draft of this task or thread, or the only one of another."""
        owner = _current_owner()
        if self._drafts.get(owner):
            return owner, self._drafts[owner]
        written = [(each, draft) for each, draft in self._drafts.items() if draft]
        return written[0] if len(written) == 1 else (owner, {})


def _current_owner() -> Any:
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()


def _is_alive(owner: Any) -> bool:
    return not owner.done() if isinstance(owner, asyncio.Task) else bool(owner.is_alive())
