"""Dicts, lists and sets that refuse to be changed where a change would have no effect."""

from typing import Any


def _refuse_change(self: Any, *_: Any, **__: Any) -> Any:
    raise TypeError(
        "This is a copy that can't be changed in place: use the methods of the object that it "
        "comes from, or assign a whole new value to the attribute."
    )


class ReadOnlyDict(dict[str, Any]):
    """A dict to be read. A copy of it is a plain one."""

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


class ReadOnlyList(list[Any]):
    """A list to be read. A copy of it is a plain one."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


class ReadOnlySet(set[Any]):
    """A set to be read. A copy of it is a plain one."""

    __iand__ = __ior__ = __isub__ = __ixor__ = _refuse_change
    add = clear = discard = pop = remove = update = _refuse_change
    difference_update = intersection_update = symmetric_difference_update = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> Any:
        return set, (list(self),)


def make_read_only(value: Any) -> Any:
    """The same value with read-only dicts, lists and sets at every depth."""
    if isinstance(value, set):
        return ReadOnlySet(value)
    if isinstance(value, dict):
        return ReadOnlyDict({key: make_read_only(each) for key, each in value.items()})
    return ReadOnlyList(map(make_read_only, value)) if isinstance(value, list) else value
