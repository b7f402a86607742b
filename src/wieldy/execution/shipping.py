"""Pickle what is sent to a worker or back: functions, values, errors, variables and boxes."""

import builtins
import pickle
import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from wieldy.core.errors import describe_exception

from .remote_box import Shareable, share_box

try:
    import cloudpickle
    from cloudpickle import cloudpickle as tracked
except ImportError as error:
    raise ImportError(
        f'isolation="process" needs one more package ({error}): pip install "wieldy[process]"'
    ) from error


# The ids of the classes that this process was the first to send.
_own_classes: set[str] = set()


class Shipper(cloudpickle.Pickler):  # type: ignore[misc] # it comes without types
    """A pickler for functions and classes that can't be imported elsewhere, and for variables."""

    def reducer_override(self, obj: Any) -> Any:
        """The special form in which an object is sent, if there is one."""
        if isinstance(obj, BaseException):
            return _reduce_error(obj)
        if isinstance(obj, Shareable):
            return share_box(obj)
        if isinstance(obj, ContextVar):
            return find_variable, name_variable(obj)
        if isinstance(obj, type):
            return self._reduce_class(obj)
        return super().reducer_override(obj)

    def _reduce_class(self, kind: type) -> Any:
        """Send a class by its id if it came from the other process, which has the original."""
        known = tracked._DYNAMIC_CLASS_TRACKER_BY_CLASS.get(kind)
        if known is not None and known not in _own_classes:
            return find_class, (known,)
        reduced = super().reducer_override(kind)
        made = tracked._DYNAMIC_CLASS_TRACKER_BY_CLASS.get(kind)
        if made is not None:
            _own_classes.add(made)
        return reduced


def make_pickler(file: Any) -> Shipper:
    """A pickler that writes to a file."""
    return Shipper(file, protocol=5)


def pack(content: Any) -> bytes:
    """Content as bytes, for a value that is part of a message."""
    pieces: list[Any] = []
    make_pickler(_Appending(pieces)).dump(content)
    return b"".join(pieces)


class _Appending:
    def __init__(self, pieces: list[Any]) -> None:
        self.write = pieces.append


def find_class(tracker: str) -> type:
    """The class that was sent under this id."""
    found: type = tracked._DYNAMIC_CLASS_TRACKER_BY_ID[tracker]
    return found


def _reduce_error(error: BaseException) -> Any:
    """The pickled form of an exception, which avoids a constructor with unknown parameters."""
    chain = (error.__cause__, error.__context__, error.__suppress_context__)
    reduced = error.__reduce_ex__(5)
    own = type(error).__init__ not in _PLAIN_INITS
    state = dict(vars(error))
    if own:
        return _remake_error, (type(error), error.args, state, chain)
    return _restore_error, (reduced[0], reduced[1], state, chain)


_PLAIN_INITS = {
    kind.__init__
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
_Chain = tuple[BaseException | None, BaseException | None, bool]


def _remake_error(
    kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any], chain: _Chain
) -> BaseException:
    made = kind.__new__(kind, *args)
    made.args = args
    return _restore_state(made, state, chain)


def _restore_error(
    make: Callable[..., BaseException], args: tuple[Any, ...], state: dict[str, Any], chain: _Chain
) -> BaseException:
    return _restore_state(make(*args), state, chain)


def _restore_state(made: BaseException, state: dict[str, Any], chain: _Chain) -> BaseException:
    vars(made).update(state)
    made.__cause__, made.__context__, made.__suppress_context__ = chain
    return made


class UnknownError(Exception):
    """Stands for an exception in a worker that can't be sent, with its message."""

    def __str__(self) -> str:
        return str(self.args[0])


def pack_error(error: BaseException) -> tuple[bytes | None, str]:
    """An exception as bytes, or None if it can't be sent, and its message."""
    said = describe_exception(error)
    where = "".join(traceback.format_exception(error)).rstrip()
    try:
        error.add_note(f"In the worker:\n{where}")
        packed = pack(error)
        # An exception that can't be restored in this process can't be restored in the other.
        if describe_exception(pickle.loads(packed)) == said:
            return packed, said
    except Exception:
        # Exceptions are other people's code, and may raise anything when they are read.
        pass
    return None, said


def unpack_error(packed: bytes | None, said: str) -> BaseException:
    """The exception that a worker's function raised, or one with its message."""
    if packed is not None:
        try:
            found = pickle.loads(packed)
            if isinstance(found, BaseException):
                return found
        except Exception:
            # The class may be one that only the worker can import.
            pass
    return UnknownError(said)


# A context variable can't be pickled. A variable of a module is found there by its name. A
# variable of a script or a function has a number, which the process that made it chose.
_numbers: dict[str, ContextVar[Any]] = {}
_names: "dict[ContextVar[Any], tuple[str, str, str]]" = {}
_lock = threading.Lock()


def name_variable(variable: ContextVar[Any]) -> tuple[str, str, str]:
    """The name by which other processes find a variable."""
    with _lock:
        if variable not in _names:
            number = uuid.uuid4().hex
            _names[variable] = (_module_of(variable), variable.name, number)
            _numbers[number] = variable
        return _names[variable]


def find_variable(module: str, name: str, number: str) -> ContextVar[Any]:
    """The variable of a module, or the one with this number."""
    if module:
        place, _, attribute = module.partition(":")
        found = getattr(__import__(place, fromlist=[attribute]), attribute, None)
        if isinstance(found, ContextVar):
            return found
    with _lock:
        if number not in _numbers:
            made: ContextVar[Any] = ContextVar(name)
            _numbers[number] = made
            _names[made] = (module, name, number)
        return _numbers[number]


def _module_of(variable: ContextVar[Any]) -> str:
    """The module of a variable and its name there; empty if no imported module has it."""
    for place, module in list(sys.modules.items()):
        if place == "__main__":
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is variable:
                return f"{place}:{attribute}"
    return ""
