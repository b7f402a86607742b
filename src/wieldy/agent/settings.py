"""The settings of an agent: values by dotted key, inherited from a parent."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from .nested_data import copy_containers, get_dotted, merge_values, nest_dotted

_MISSING = object()
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Settings:
    """Values by dotted key. A key that is not set here is looked up in the parent."""

    def __init__(
        self, values: Mapping[str, Any] | None = None, parent: "Settings | None" = None
    ) -> None:
        # The mapping is replaced and never changed, so all empty ones are the same.
        self._values = dict(values) if values else _NOTHING
        self._parent = parent

    def get(self, key: str, default: Any = None, inherit: bool = True) -> Any:
        """The value of a key, a dict of all keys below it, or the default."""
        found = get_dotted(self.values(inherit), key, _MISSING)
        return default if found is _MISSING else found

    def set(self, key: str, value: Any) -> Self:
        """Set a key; a dict is merged with an existing dict."""
        self._values = merge_values(self._values, nest_dotted(key, value))
        return self

    def replace(self, key: str, value: Any) -> Self:
        """Set a key to exactly this value, without merging."""
        self._values = merge_values(self._values, nest_dotted(key, None))
        return self.set(key, value)

    def set_settings(self, key: str, value: Any) -> Self:
        """Set a key, as `set` does."""
        return self.set(key, value)

    def setdefault(self, key: str, value: Any) -> Any:
        """The value of a key, which is set first if there is none."""
        if self.get(key, _MISSING) is _MISSING:
            self.set(key, value)
        return self.get(key)

    def values(self, inherit: bool = True) -> Mapping[str, Any]:
        """All values as nested dicts."""
        if not inherit or self._parent is None:
            return self._values
        merged: Mapping[str, Any] = merge_values(self._parent.values(), self._values)
        return merged

    def snapshot(self) -> "Settings":
        """A copy of the values, which later changes don't affect."""
        return Settings(copy_containers(self.values()))

    def __getitem__(self, key: str) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __contains__(self, key: str) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def __repr__(self) -> str:
        # Only the names are shown, because a model's settings contain its key.
        return f"Settings({', '.join(self.values())})"
