"""Check a tool's results against its output schema."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.active_call import ActiveCall, Handler
from wieldy.core.block import to_text
from wieldy.core.bounded_json import NestedTooDeep, check_depth, parse_json
from wieldy.core.call import Outcome, Status
from wieldy.core.errors import DefinitionError, InvalidResult
from wieldy.core.secrets.secret import redact_text
from wieldy.core.short_text import cut_text, first_line
from wieldy.core.tool import Tool

from .misfit import Misfit, find_misfits
from .references import find_part
from .result_wrapping import is_wrapped, wrapped_schema
from .schema_check import SchemaCheck

_MAX_LENGTH = 300
# A schema that has nothing else says nothing about the value.
_REMARKS = frozenset(("$comment", "$schema", "title", "description"))
_UNTOLD = Misfit((), "wrong", "it does not fit")


class Promise:
    """The output schema of a tool, as the schema of an object.

    `wrapped` says that the object has the value under `result`, because the value itself need
    not be an object.
    """

    __slots__ = ("_check", "schema", "wrapped")

    def __init__(self, schema: Mapping[str, Any], wrapped: bool) -> None:
        self.schema = dict(schema)
        self.wrapped = wrapped
        self._check: SchemaCheck | None = None

    def structured(self, data: Any) -> Any:
        """Plain data as structured content."""
        return {"result": data} if self.wrapped else data

    def problem(self, structured: Any) -> str | None:
        """Why structured content does not fit, or None."""
        if self._check is None:
            self._check = compile_schema(self.schema)
        try:
            if self._check.fits(structured):
                return None
            path, _, message = next(find_misfits(self._check, structured), _UNTOLD)
        except ValueError as error:
            return f"it can't be checked ({_short_line(error)})"
        place = [str(step) for step in path][1 if self.wrapped else 0 :]
        where = f"at {'/'.join(place)[:_MAX_LENGTH]}: " if place else ""
        return f"{where}{_short_line(message)}"


def promised_result(tool: Tool) -> Promise | None:
    """The schema that results are checked against; None if there is none that can be used.

    A schema that the program itself has given and that can't be used is a `DefinitionError`. A
    server's says nothing then.
    """
    promise: Promise | None = tool.once("promise", _read_promise)
    return promise


def compile_schema(schema: Mapping[str, Any]) -> SchemaCheck:
    """A check for a schema from outside; `ValueError` if the schema can't be used."""
    try:
        return SchemaCheck(schema)
    except ValueError as error:
        raise ValueError(_short_line(error)) from error


def plain_data(value: Any) -> Any:
    """A value as JSON data; `ValueError` if it can't be JSON."""
    if isinstance(value, str):
        return value
    check_depth(value)
    return parse_json(to_text(value))


async def check_results(active: ActiveCall, proceed: Handler) -> Outcome:
    """A middleware that turns a result that does not fit the output schema into an error."""
    return checked_outcome(active, await proceed(active))


def checked_outcome(active: ActiveCall, outcome: Outcome) -> Outcome:
    """The outcome, or an error that keeps the value if it does not fit the output schema."""
    active.checks_result = False
    # A result that was cut can't be checked, and the cut is not the tool's fault.
    if outcome.status is not Status.OK or active.noted("cut") is not None:
        return outcome
    if active.noted("dry_run") and not active.noted("simulated"):
        # It says that nothing ran.
        return outcome
    found = _find_problem(active.tool, outcome.value)
    if found is None:
        return outcome
    error = InvalidResult(active.tool.name, redact_text(found, active.secrets))
    content = () if active.streamed else outcome.content
    return Outcome(outcome.call, Status.ERROR, outcome.value, error, content, outcome._metadata)


def _find_problem(tool: Tool, value: Any) -> str | None:
    promise = promised_result(tool)
    if promise is None:
        return None
    try:
        data = plain_data(value)
    except NestedTooDeep as error:
        return f"it is {error}"
    except ValueError:
        return "it can't be written as JSON"
    return promise.problem(promise.structured(data))


def _read_promise(tool: Tool) -> Promise | None:
    schema = tool.declared_output
    if schema is None or not schema.keys() - _REMARKS or _is_postprocessed(tool):
        return None
    promise = _make_promise(schema)
    try:
        compile_schema(promise.schema)
    except ValueError as error:
        if tool.source == "python":
            raise DefinitionError(tool.name, f"its output schema can't be used: {error}") from None
        return None
    return promise


def _make_promise(schema: Mapping[str, Any]) -> Promise:
    if is_wrapped(schema):
        return Promise(schema, True)
    if _describes_object(schema):
        return Promise({**schema, "type": "object"}, False)
    return Promise(wrapped_schema(schema), True)


def _is_postprocessed(tool: Tool) -> bool:
    """Whether the schema describes a value that `postprocess` then changes."""
    own = tool.source == "python" and tool.has_given_output
    return tool.postprocess is not None and not own


def _describes_object(schema: Mapping[str, Any]) -> bool:
    if "type" in schema:
        return bool(schema["type"] == "object")
    # A recursive model is described by a reference.
    target = find_part(schema.get("$ref"), schema)
    if isinstance(target, Mapping):
        return bool(target.get("type") == "object")
    return "properties" in schema


def _short_line(said: object) -> str:
    return cut_text(first_line(said), _MAX_LENGTH)
