"""Accept arguments: parse, validate, repair and convert them for the function."""

from collections.abc import Callable, Mapping
from functools import partial
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import ValidationError

from wieldy.core.active_call import ActiveCall
from wieldy.core.bounded_json import NestedTooDeep, check_depth, check_text_depth, parse_json
from wieldy.core.errors import DefinitionError, InvalidArguments
from wieldy.core.schema.json_schema import arguments_validator, input_schema
from wieldy.core.schema.misfit import find_misfits
from wieldy.core.schema.schema_check import SchemaCheck, TooComplex
from wieldy.core.schema.schema_graph import SchemaGraph
from wieldy.core.schema.signature import bound_keywords
from wieldy.core.schema.way_count import count_ways, multiplies
from wieldy.core.secrets.secret import reveal_secret
from wieldy.core.short_text import first_line
from wieldy.core.tool import Tool

from . import argument_errors as problem
from .argument_repair import Receipt, repair_arguments
from .loose_json import correct_json

# A validator maps plain arguments to pydantic's pair: nothing, and the keyword arguments.
Validate = Callable[[Any], tuple[Any, dict[str, Any]]]
Read = Callable[[Any], tuple[Any, dict[str, Any]]]
Accept = Callable[[ActiveCall], dict[str, Any]]

# How many attempts of a validator take a few hundredths of a second: few if the value is wrong,
# because each attempt then keeps an error, and many if it is right.
_FEW_WAYS, _MAX_WAYS = 5_000, 500_000
# Types of arguments that contain no other values.
_FLAT = (str, int, float, bool, type(None))
# Types of arguments whose levels are those of the types in them.
_WITH_INNER = (list, tuple, set, frozenset, dict, Union, UnionType)


class _Refused(ValueError):
    """Raised when a validator refuses the arguments; it can describe why.

    `problems` gets the arguments as they were sent, and the original name of each renamed one.
    """

    def __init__(
        self, problems: Callable[[Mapping[str, Any], Mapping[str, str]], list[str]]
    ) -> None:
        self.problems = problems


class Intake:
    """Accepts the arguments of one tool. It is made once per tool, at its first call."""

    def __init__(self, tool: Tool, default_validation: str = "repair") -> None:
        self._tool = tool
        self._mode = tool.validation or default_validation
        self._presets = _ready_presets(tool)
        self._hidden = self._presets.keys() - tool.input_schema["properties"].keys()
        self._validate, self._read = _find_validators(tool, self._mode)
        direct = tool.shape is None and not self._presets
        self.values: Validate = self._validate if direct else self._values_unless_hidden
        self.read: Read = self._read if direct else _no_text

    def accept(self, active: ActiveCall) -> dict[str, Any]:
        """Convert what was sent to what the function gets, or raise `InvalidArguments`."""
        # A dict or JSON text that fits takes the short way; the rest is examined again below.
        sent = active.call.arguments
        try:
            return (self.values if type(sent) is dict else self.read)(sent)[1]
        except ValueError:
            return self._accept_slowly(active, sent)

    def _accept_slowly(self, active: ActiveCall, sent: Any) -> dict[str, Any]:
        parsed, repairs = self._parse_sent(sent)
        try:
            check_depth(parsed)
        except NestedTooDeep as error:
            raise InvalidArguments(self._tool.name, [f"arguments: {error}"]) from None
        kept, dropped = self._without_hidden(parsed)
        active.accepted = kept
        checked = parsed if self._mode == "strict" else kept
        try:
            accepted = self._validate_values(checked)[1]
        except ValueError as error:
            return self._repair_sent(active, checked, error, [*repairs, *dropped])
        if repairs or dropped:
            active.note("repairs", [*repairs, *dropped])
        return accepted

    def _repair_sent(
        self, active: ActiveCall, sent: Mapping[str, Any], error: ValueError, repairs: list[Receipt]
    ) -> dict[str, Any]:
        if self._mode != "repair":
            raise self._invalid_arguments(error, sent) from None
        fixed, receipts = repair_arguments(sent, self._tool.input_schema)
        if not receipts:
            raise self._invalid_arguments(error, sent) from None
        try:
            accepted = self._validate_values(fixed)[1]
        except ValueError as second:
            raise self._invalid_arguments(second, fixed) from None
        active.accepted = fixed
        active.note("repairs", [*repairs, *receipts])
        return accepted

    def _validate_values(self, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        shape = self._tool.shape
        if shape is not None:
            try:
                arguments = shape.translate(arguments)
            except KeyError as error:
                problems = [f"{error.args[0]}: there is no such argument"]
                raise _Refused(lambda sent, outer: problems) from None
        validated = self._validate(arguments)
        validated[1].update(self._presets)
        return validated

    def _values_unless_hidden(self, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The short way, unless the caller names a hidden argument."""
        if not self._hidden.isdisjoint(arguments):
            raise ValueError
        return self._validate_values(arguments)

    def _without_hidden(self, sent: dict[str, Any]) -> tuple[dict[str, Any], list[Receipt]]:
        """The arguments without the hidden ones, and a receipt for each one dropped."""
        named = [name for name in sent if name in self._hidden]
        kept = {name: value for name, value in sent.items() if name not in named}
        return (kept if named else sent), [{"path": name, "kind": "dropped"} for name in named]

    def _parse_sent(self, sent: Any) -> tuple[dict[str, Any], list[Receipt]]:
        if isinstance(sent, Mapping):
            return dict(sent), []
        if sent is None or (isinstance(sent, str) and not sent.strip()):
            return {}, []
        value, repairs = self._parse_text(sent)
        if isinstance(value, str) and self._mode == "repair":
            value, inner = self._parse_text(value)
            repairs = [*repairs, {"path": "", "kind": "object_from_json"}, *inner]
        if value is None:
            return {}, repairs
        if not isinstance(value, dict):
            raise self._not_an_object(value)
        return value, repairs

    def _parse_text(self, text: Any) -> tuple[Any, list[Receipt]]:
        if not isinstance(text, str | bytes):
            raise self._not_an_object(text)
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        try:
            return parse_json(text), []
        except ValueError as error:
            reason = str(error)
        if self._mode == "repair":
            try:
                plain, kinds = correct_json(text)
                return parse_json(plain), [{"path": "", "kind": kind} for kind in kinds]
            except ValueError:
                pass
        unread = f"arguments: expected JSON, got text that can't be read: {reason}"
        raise InvalidArguments(self._tool.name, [unread])

    def _not_an_object(self, sent: Any) -> InvalidArguments:
        kind = problem.kind_of(sent)
        return InvalidArguments(self._tool.name, [f"arguments: expected object, got {kind}"])

    def _invalid_arguments(
        self, error: Exception, arguments: Mapping[str, Any]
    ) -> InvalidArguments:
        shape = self._tool.shape
        shown = () if shape is None else self._tool.input_schema["properties"]
        outer = {shape.inner_name(name): name for name in shown} if shape else {}
        if isinstance(error, _Refused):
            problems = error.problems(arguments, outer)
        else:
            assert isinstance(error, ValidationError)
            problems = problem.from_pydantic(error, arguments, self._tool.input_schema, outer)
        return InvalidArguments(self._tool.name, problems)


def _find_validators(tool: Tool, mode: str) -> tuple[Validate, Read]:
    """The function that checks a dict, and the one that reads and checks JSON text."""
    if mode == "describe":
        return _bound_depth(_as_sent), _no_text
    found: tuple[Validate, Read] = tool.once("validators", _make_validators)
    return found


def _make_validators(tool: Tool) -> tuple[Validate, Read]:
    if tool.own_schema is not None:
        return _bound_depth(_foreign_validator(tool)), _no_text
    validator = arguments_validator(tool.name, tool.signature)
    if "$defs" in tool.input_schema:
        # A derived tool's arguments are converted first, so the function's own schema is counted.
        own = (
            tool.input_schema if tool.shape is None else input_schema(tool.name, tool.signature, {})
        )
        if multiplies(SchemaGraph(own)):
            return _bound_depth(_bound_validator(validator.validate_python, own)), _no_text
    if all(_bounds_levels(parameter.annotation) for parameter in tool.signature.parameters):
        # Nothing deep fits these arguments, and why it does not is found out below.
        return validator.validate_python, validator.validate_json
    return _bound_depth(validator.validate_python), _bound_text(validator.validate_json)


def _bounds_levels(kind: Any) -> bool:
    """Whether a type says itself how many levels its values have."""
    if kind in _FLAT or get_origin(kind) is Literal:
        return True
    inner = [each for each in get_args(kind) if each is not Ellipsis]
    return get_origin(kind) in _WITH_INNER and bool(inner) and all(map(_bounds_levels, inner))


def _bound_depth(validate: Validate) -> Validate:
    """A validator that takes no arguments that are nested too deeply."""

    def bounded(arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        check_depth(arguments)
        return validate(arguments)

    return bounded


def _bound_text(read: Read) -> Read:
    """The same for JSON text."""

    def bounded(text: Any) -> tuple[Any, dict[str, Any]]:
        if isinstance(text, str | bytes):
            check_text_depth(text)
        return read(text)

    return bounded


def _no_text(text: str) -> tuple[Any, dict[str, Any]]:
    """Refuse: this tool has no short way for JSON text."""
    raise ValueError


def _foreign_validator(tool: Tool) -> Validate:
    """A validator for a schema that came from outside; the function gets plain data."""
    # The tool refers to its validator, so the validator must not refer to the tool.
    check, shown = _schema_check(tool), tool.input_schema

    def validate(arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        try:
            if check.fits(arguments):
                return _as_sent(arguments)
        except ValueError as error:
            reason = str(error)
            raise _Refused(lambda sent, outer: [f"arguments: {reason}"]) from None

        def problems(sent: Mapping[str, Any], outer: Mapping[str, str]) -> list[str]:
            misfits = find_misfits(check, arguments)
            return problem.from_misfits(misfits, sent, shown, outer)

        raise _Refused(problems)

    return validate


def _bound_validator(validate: Validate, schema: Mapping[str, Any]) -> Validate:
    """A validator for recursive models whose work is bounded.

    If pydantic would have to try too much, the schema is checked first. That check remembers
    what it tried, and finds the mistake without trying everything.
    """
    check = SchemaCheck(schema)

    def bounded(arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        ways = count_ways(check.graph, arguments, _MAX_WAYS)
        if ways > _FEW_WAYS and not _fits_schema(check, arguments):
            raise _Refused(partial(problems, arguments))
        if ways > _MAX_WAYS:
            raise _Refused(lambda sent, outer: [f"arguments: {TooComplex()}"])
        return validate(arguments)

    def problems(
        arguments: Mapping[str, Any], sent: Mapping[str, Any], outer: Mapping[str, str]
    ) -> list[str]:
        return problem.from_misfits(find_misfits(check, arguments), sent, schema, outer)

    return bounded


def _fits_schema(check: SchemaCheck, arguments: Any) -> bool:
    try:
        return check.fits(arguments)
    except ValueError as error:
        # A value that is not JSON may be an instance of the declared model.
        return not isinstance(error, TooComplex)


def _schema_check(tool: Tool) -> SchemaCheck:
    try:
        return SchemaCheck(tool.own_schema or {})
    except ValueError as error:
        place = problem.show_path(getattr(error, "instance_path", ()))
        reason = first_line(f"{place}: {error}".removeprefix(": "))
        raise DefinitionError(tool.name, f"its input schema can't be used: {reason}") from error


def _as_sent(arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    return (), dict(arguments)


def _ready_presets(tool: Tool) -> dict[str, Any]:
    """The presets as the function wants them: a secret becomes text unless a secret is declared.

    Keywords bound by a partial are presets too; otherwise a call could override them.
    """
    ready = bound_keywords(tool.function)
    declared = tool.signature.secret_presets
    for name, value in tool.presets.items():
        ready[name] = value if name in declared else reveal_secret(value)
    return ready
