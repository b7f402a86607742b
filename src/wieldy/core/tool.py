"""A tool: a function and everything that is known about it."""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum
from typing import Any, get_args

from .bounded_json import NestedTooDeep, check_depth
from .canonical import digest_of
from .choices import PermissionName, ValidationMode
from .errors import DefinitionError
from .limits.limits import NO_LIMITS, Limits
from .names import check_options, listed_names
from .permission.argument_reach import Aliases, ArgumentNames, declared_names
from .schema import json_schema as schema_of
from .schema.derive import UNSET, Argument, Reshape
from .schema.preset_removal import without_filled_in
from .schema.result_wrapping import inner_schema, is_wrapped
from .schema.schema_graph import find_input_fault
from .schema.signature import (
    Signature,
    bound_keywords,
    bound_values,
    find_documented,
    known_values,
    local_names,
    read_docstring,
    read_outside,
    read_signature,
    unwrap_partial,
)
from .secrets.credential import preset_secrets


class Hold:
    """Why a tool is held back: it is not offered or, with `asks`, each call needs a person.

    No rule and no mode lifts a hold.
    """

    __slots__ = ("asks", "reason")

    def __init__(self, reason: str, asks: bool = False) -> None:
        self.reason = reason
        self.asks = asks

    def __repr__(self) -> str:
        return f"Hold({self.reason!r}, asks={self.asks})"


Review = Callable[["Tool"], Hold | None]


# A schema, or a function that computes it when it is first needed.
GivenSchema = Mapping[str, Any] | Callable[[], Mapping[str, Any] | None]

VALIDATIONS = get_args(ValidationMode)
# The kinds of sources whose results are written by somebody else than the program.
_OUTSIDE = ("mcp", "openapi")
_SAID_TO_DESTROY = "its source says that it is destructive, and nobody has set its permission"
# The fields beside the definition: nothing in the cache depends on them.
_BESIDE = "group hold limits _permission permission postprocess source tags untrusted validation"
_ASIDE = frozenset(_BESIDE.split())


class Permission(StrEnum):
    """Whether a call runs by itself, after a person agreed, or never."""

    AUTO = "auto"
    CONFIRM = "confirm"
    DENY = "deny"


class Tool:
    """A named function with its description, its limits and its permission.

    A tool is never changed after it is made; `replace` and `derive` give new
    ones. What is read from the function (description, schemas, fingerprint) is
    read when it is first asked for.

    A tool without a `permission` runs by itself, unless it is described elsewhere by somebody who
    is not trusted and says that it is destructive.

    A trait (`read_only`, `idempotent`, `destructive`, `open_world`) is None if nobody stated
    it. `is_destructive` and `is_open_world` say what that counts as: with `cautious`, which
    tools have that are described elsewhere, as the worse. `trusted` says whether whoever
    describes the tool is trusted. `simulate` is a function that answers in its place in the
    mode `dry-run`. `untrusted` says whether its results come from outside; None leaves that
    to its source.

    `hints` are what the server of the tool says of it, in MCP's words: they are passed
    on to clients and decide nothing here. `check_output` says whether results are held
    to the output schema; None leaves it to the toolbox.

    `original_names` are what a server, a document or its maker calls a tool that may
    have another name here. Rules that restrict hold for them too; they are no part of
    the definition, and of the fingerprint.

    `resumable` says that a call which a crash cut off can be run again: its function finds by
    the call's id what it had done, and goes on from there.

    `appendix` gives text that follows the description wherever it is shown, as it is then. It
    is no part of the definition: `stated_description` is.
    """

    __slots__ = (
        "_cache",
        "_given",
        "_names",
        "_permission",
        "appendix",
        "cautious",
        "check_output",
        "destructive",
        "function",
        "group",
        "hints",
        "hold",
        "idempotent",
        "limits",
        "name",
        "open_world",
        "original_names",
        "postprocess",
        "presets",
        "read_only",
        "resumable",
        "shape",
        "simulate",
        "source",
        "tags",
        "trusted",
        "untrusted",
        "validation",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        group: str = "basic",
        tags: Iterable[str] = (),
        permission: Permission | PermissionName | None = None,
        presets: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        postprocess: Callable[[Any], Any] | None = None,
        input_schema: GivenSchema | None = None,
        output_schema: GivenSchema | None = None,
        read_only: bool | None = None,
        idempotent: bool | None = None,
        destructive: bool | None = None,
        open_world: bool | None = None,
        hints: Mapping[str, Any] | None = None,
        validation: ValidationMode | None = None,
        source: str = "python",
        shape: Reshape | None = None,
        hold: Hold | None = None,
        original_names: Iterable[str] = (),
        check_output: bool | None = None,
        simulate: Callable[..., Any] | None = None,
        trusted: bool = True,
        cautious: bool = False,
        resumable: bool = False,
        untrusted: bool | None = None,
        appendix: Callable[[], str] | None = None,
    ) -> None:
        if not callable(function):
            raise DefinitionError(str(name or function), "a tool needs something callable")
        self.name = name or own_name(function)
        self.function = function
        self.group = group
        self.tags = tuple(dict.fromkeys(listed_names(tags)))
        self._permission = _read_permission(self.name, permission)
        self.presets = dict(presets or {})
        self.limits = limits or NO_LIMITS
        self.postprocess = postprocess
        self.read_only = read_only
        self.idempotent = idempotent
        self.destructive = destructive
        self.open_world = open_world
        self.hints = dict(hints or {})
        self.validation = validation
        self.source = source
        self.shape = shape
        self.hold = hold
        self.original_names = tuple(original_names)
        self.check_output = check_output
        self.simulate = simulate
        self.trusted, self.cautious = trusted, cautious
        self.resumable, self.appendix, self.untrusted = resumable, appendix, untrusted
        self._given = (description, input_schema, output_schema)
        self._names = None if input_schema is not None else local_names(function)
        self._cache: dict[Hashable, Any] = {}
        _check_definition(self, input_schema)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, "_cache"):
            raise AttributeError(f"A tool is not changed after it is made: replace({name}=…)")
        super().__setattr__(name, value)

    def replace(self, **changes: Any) -> "Tool":
        """Make the same tool with other fields.

        Args:
            **changes: The fields to change, by the names that `Tool` takes.

        Returns:
            The new tool.

        Raises:
            TypeError: A name is not one of those.
        """
        facts = {name: getattr(self, name) for name in self.__slots__ if name[0] != "_"}
        facts["permission"] = self._permission
        facts.update(
            zip(("description", "input_schema", "output_schema"), self._given, strict=True)
        )
        check_options(Tool.replace, changes, facts)
        facts.update(changes)
        other = Tool(facts.pop("function"), **facts)
        object.__setattr__(other, "_names", other._names or self._names)
        if changes.keys() <= _ASIDE:
            object.__setattr__(other, "_cache", self._cache)
        return other

    def know_like(self, other: "Tool") -> None:
        """Share the cache of another tool, if both have the same definition."""
        facts = [each for each in self.__slots__ if each not in _ASIDE and each != "_cache"]
        if all(_same_facts(getattr(self, each), getattr(other, each)) for each in facts):
            object.__setattr__(self, "_cache", other._cache)

    def derive(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        arguments: Mapping[str, Argument] | None = None,
    ) -> "Tool":
        """Make a tool over the same function, with another name or other arguments.

        Args:
            name: The new tool's name; by default the same.
            description: The text for the model; by default the same.
            arguments: How arguments differ, by the names that the original shows.

        Returns:
            The new tool.

        Raises:
            DefinitionError: There is no such argument, or the change is not possible.

        Example:
            `search.derive(name="search_docs", arguments={"index": Argument(hidden=True)})`
        """
        changes: dict[str, Any] = {"name": name or self.name}
        if description is not None:
            changes["description"] = description
        if arguments:
            _check_changes(self, arguments)
            fixed = {
                self._own_name_of(each): argument.default
                for each, argument in arguments.items()
                if argument.hidden and argument.default is not UNSET
            }
            changes["shape"] = Reshape(arguments, self.shape)
            changes["presets"] = {**self.presets, **fixed}
        return self.replace(**changes)

    @property
    def stated_description(self) -> str:
        """What the tool does, from its maker or its docstring."""
        given = self._given[0]
        return self._read_docstring_once[0] if given is None else given

    @property
    def description(self) -> str:
        """What the tool does, with its appendix."""
        stated = self.stated_description
        return stated if self.appendix is None else f"{stated}\n\n{self.appendix()}"

    @property
    def signature(self) -> Signature:
        """What the function takes, less what is passed in for it."""
        signature: Signature = self.once("signature", _read_signature)
        return signature

    @property
    def input_schema(self) -> dict[str, Any]:
        """What a model may send, as JSON Schema 2020-12. Don't change it."""
        schema: dict[str, Any] = self.once("input_schema", _build_input_schema)
        return schema

    @property
    def given_schema(self) -> GivenSchema | None:
        """The input schema as it was given, or the function that computes it, if there is one."""
        return self._given[1]

    @property
    def own_names(self) -> dict[str, str]:
        """The function's own name of each argument that is shown under another name."""
        names: dict[str, str] = self.once("own_names", _read_own_names)
        return names

    @property
    def argument_names(self) -> ArgumentNames:
        """The names by which rules may refer to the arguments."""
        names: ArgumentNames = self.once("argument_names", _read_argument_names)
        return names

    @property
    def own_schema(self) -> dict[str, Any] | None:
        """The schema given for the function's own arguments, without the presets."""
        schema: dict[str, Any] | None = self.once("own_schema", _read_own_schema)
        return schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of the value, as JSON Schema 2020-12, if the tool has one."""
        schema: dict[str, Any] | None = self.once("output_schema", _build_output_schema)
        return schema

    @property
    def declared_output(self) -> dict[str, Any] | None:
        """The output schema as it was declared: a server may declare a value under `result`."""
        schema: dict[str, Any] | None = self.once("declared_output", _read_declared_output)
        return schema

    @property
    def has_given_output(self) -> bool:
        """Whether the output schema was given, and not read from the function."""
        return self._given[2] is not None

    @property
    def traits(self) -> dict[str, bool | None]:
        """The traits by name; None for a trait that nobody stated."""
        return {
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "destructive": self.destructive,
            "open_world": self.open_world,
        }

    @property
    def permission(self) -> Permission:
        """Whether a call runs by itself: as somebody has set it, or else by what is said of it."""
        if self._permission is not None:
            return self._permission
        return Permission.AUTO if self.asks_because is None else Permission.CONFIRM

    @property
    def asks_because(self) -> str | None:
        """Why its calls need a person although nobody has set a permission; None if they don't."""
        warned = self.cautious and self.destructive and not self.trusted
        return _SAID_TO_DESTROY if warned and self._permission is None else None

    @property
    def is_destructive(self) -> bool:
        """Whether it counts as destructive, stated or not."""
        if self.destructive is None:
            return self.cautious and not self.read_only
        return self.destructive

    @property
    def is_open_world(self) -> bool:
        """Whether it counts as reaching beyond a closed domain, stated or not."""
        return self.cautious if self.open_world is None else self.open_world

    @property
    def is_untrusted(self) -> bool:
        """Whether its results come from outside: by its own word, or else by its source."""
        if self.untrusted is None:
            return self.source.partition(":")[0] in _OUTSIDE
        return self.untrusted

    @property
    def locked_traits(self) -> dict[str, bool]:
        """The traits as fingerprints and locks have them; one that nobody stated counts as False.

        Earlier fingerprints don't contain `open_world`. So it is included only for a function that
        declares it, and not for a tool described elsewhere, for which it is assumed.
        """
        held = {trait: bool(holds) for trait, holds in self.traits.items()}
        if self.cautious or not self.open_world:
            del held["open_world"]
        return held

    @property
    def retryable(self) -> bool:
        """Whether running it twice is as good as once."""
        return bool(self.read_only or self.idempotent)

    @property
    def fingerprint(self) -> str:
        """A digest of the definition: name, description, schemas and traits."""
        known: str | None = self._cache.get("fingerprint")
        fingerprint: str = known or self.once("fingerprint", _compute_fingerprint)
        return fingerprint

    @property
    def secrets(self) -> tuple[str, ...]:
        """The hidden strings that must not appear anywhere."""
        secrets: tuple[str, ...] = self.once("secrets", _read_secrets)
        return secrets

    @property
    def _read_docstring_once(self) -> tuple[str, dict[str, str]]:
        found: tuple[str, dict[str, str]] = self.once("docstring", _read_docstring)
        return found

    def _own_name_of(self, argument: str) -> str:
        return self.own_names.get(argument, argument)

    def once(self, fact: Hashable, read: "Callable[[Tool], Any]") -> Any:
        """A fact that depends on the tool alone, computed when it is first asked for."""
        # Two threads may both compute it; they get the same value.
        if fact not in self._cache:
            self._cache[fact] = read(self)
        return self._cache[fact]

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


def _same_facts(one: Any, other: Any) -> bool:
    """Whether two facts are the same; `==` of other people's objects is not called."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(_same_facts(one[key], other[key]) for key in one)
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_same_facts, one, other))
    return one == other if type(one) is str else one is other


def own_name(function: Any) -> str:
    """The name of a function; an object is named after its class."""
    inner = unwrap_partial(function)[0]
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__


def _read_permission(name: str, permission: Permission | str | None) -> Permission | None:
    try:
        return None if permission is None else Permission(permission)
    except ValueError:
        choices = ", ".join(Permission)
        raise DefinitionError(
            name, f"permission must be one of {choices}, not {permission!r}"
        ) from None


def _check_definition(tool: Tool, input_schema: Any) -> None:
    if not isinstance(tool.name, str) or not tool.name:
        raise DefinitionError(str(tool.name), "the name must be text and not empty")
    if tool.name == "<lambda>":
        raise DefinitionError(tool.name, 'a lambda has no name of its own: pass name="…"')
    if tool.validation not in (None, *VALIDATIONS):
        raise DefinitionError(tool.name, f"validation must be one of {', '.join(VALIDATIONS)}")
    for trait, holds in (*tool.traits.items(), ("untrusted", tool.untrusted)):
        if holds is not None and not isinstance(holds, bool):
            raise DefinitionError(tool.name, f"{trait} is True, False or None, not {holds!r}")
    if tool.simulate is not None and not callable(tool.simulate):
        raise DefinitionError(tool.name, "simulate must be a function that answers in its place")
    if tool.limits.cache is not None and not tool.read_only:
        raise DefinitionError(tool.name, "only a read-only tool can have a cache")
    if input_schema is not None and not callable(input_schema):
        _check_input_schema(tool, input_schema)


def _check_input_schema(tool: Tool, schema: Any) -> None:
    reason = find_input_fault(schema)
    if reason is not None:
        raise DefinitionError(tool.name, reason)


def _check_levels(tool: Tool, output_schema: Any) -> None:
    try:
        check_depth(output_schema)
    except NestedTooDeep as error:
        raise DefinitionError(tool.name, f"its output schema is {error}") from None


def _check_changes(tool: Tool, arguments: Mapping[str, Argument]) -> None:
    """Whether a derived tool could have these arguments."""
    schema = tool.input_schema
    for name, argument in arguments.items():
        if name not in schema["properties"]:
            raise DefinitionError(tool.name, f"it has no argument {name!r} to change")
        needed = name in schema.get("required", ())
        if argument.hidden and needed and argument.default is UNSET:
            raise DefinitionError(tool.name, f"hiding {name!r} needs a default: it is required")
    changed = ((name, arguments.get(name, Argument())) for name in schema["properties"])
    shown = [argument.name or name for name, argument in changed if not argument.hidden]
    twice = [name for name in shown if shown.count(name) > 1]
    if twice:
        raise DefinitionError(tool.name, f"two arguments would be named {twice[0]!r}")


def _read_signature(tool: Tool) -> Signature:
    if tool.own_schema is not None:
        return read_outside(tool.function, tool.presets)
    return read_signature(tool.name, tool.function, tool.presets, tool._names)


def _read_own_names(tool: Tool) -> dict[str, str]:
    names = {parameter.shown_name: parameter.name for parameter in tool.signature.parameters}
    if tool.shape is not None:
        names = {
            outer: names.get(inner, inner)
            for outer in tool.input_schema["properties"]
            for inner in (tool.shape.inner_name(outer),)
        }
    return {outer: own for outer, own in names.items() if outer != own}


def _read_argument_names(tool: Tool) -> ArgumentNames:
    def read_aliases() -> Aliases:
        # With a schema from outside, the function gets the arguments as they were sent.
        return {} if tool.own_schema else schema_of.field_aliases(tool.name, tool.signature)

    def read_declared() -> frozenset[str] | None:
        # A schema that only describes, and describes nothing, says nothing about the arguments.
        silent = tool.validation == "describe" and not tool.input_schema["properties"]
        closed = tool.own_schema is not None and not silent
        names = declared_names(tool.input_schema, closed)
        own, known = tool.own_names, known_values(tool.function)
        if names is None or tool.validation == "describe":
            # The schema only tells a model; what is sent is passed on.
            return None
        return names.union(own, own.values(), tool.presets, known)

    return ArgumentNames(tool.own_names, read_aliases, read_declared, lambda: tool.input_schema)


def _read_docstring(tool: Tool) -> tuple[str, dict[str, str]]:
    return read_docstring(find_documented(tool.function))


def _build_input_schema(tool: Tool) -> dict[str, Any]:
    schema = tool.own_schema
    if schema is None:
        schema = schema_of.input_schema(tool.name, tool.signature, tool._read_docstring_once[1])
    schema = {"type": "object", "properties": {}, **schema}
    return tool.shape.schema(schema) if tool.shape else schema


def _build_output_schema(tool: Tool) -> dict[str, Any] | None:
    declared = tool.declared_output
    return inner_schema(declared) if declared and is_wrapped(declared) else declared


def _read_declared_output(tool: Tool) -> dict[str, Any] | None:
    given = tool._given[2]
    if callable(given):
        given = given()
        if given is None:
            return None
    if given is not None:
        _check_levels(tool, given)
        schema: dict[str, Any] = schema_of.without_titles(dict(given))
        return schema
    return schema_of.output_schema(tool.signature.returns)


def _read_own_schema(tool: Tool) -> dict[str, Any] | None:
    given, hidden = tool._given[1], {**bound_keywords(tool.function), **tool.presets}
    if given is None:
        return None
    if callable(given):
        given = given() or {}
        _check_input_schema(tool, given)
    plain: dict[str, Any] = schema_of.without_titles(dict(given))
    return without_filled_in(plain, hidden) if hidden else plain


def definition_digest(
    name: str,
    description: str,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    traits: Mapping[str, bool],
) -> str:
    """The fingerprint of a definition, its traits as `locked_traits` has them."""
    return digest_of([name, description, input_schema, output_schema, traits])


def _compute_fingerprint(tool: Tool) -> str:
    facts = (tool.input_schema, tool.declared_output, tool.locked_traits)
    return definition_digest(tool.name, tool.stated_description, *facts)


def _read_secrets(tool: Tool) -> tuple[str, ...]:
    bound = isinstance(tool.function, functools.partial)
    held = [tool.presets, bound_values(tool.function)] if bound else tool.presets
    return tuple(preset_secrets(held))
