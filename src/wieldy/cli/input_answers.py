"""Collect answers to a tool's questions from the command line or from a person."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.visible_text import visible_lines, visible_name

from . import screen
from .argument_options import ArgumentError, read_arguments
from .terminal_questions import ask_line


def given_answers(
    requests: Mapping[str, Any], pairs: tuple[str, ...], text: str | None
) -> dict[str, Any]:
    """The answers from the options: by field for a single form, else as one JSON object."""
    forms = {name: schema_of(request) for name, request in requests.items()}
    if len(forms) == 1:
        [(name, schema)] = forms.items()
        if schema is not None:
            return {name: _accept_content(_read_content(requests[name], schema, pairs, text))}
    if pairs or text is None:
        raise ArgumentError(
            f"The tool asks for {', '.join(requests)}. Answer with --arguments, an object "
            "with these names as keys."
        )
    return read_arguments({"additionalProperties": True}, (), text)


def asked_answers(requests: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answers of the person at the terminal; None if a request is not a form."""
    answers = {}
    for name, request in requests.items():
        schema = schema_of(request)
        if schema is None:
            return None
        screen.say(visible_lines(str(request["params"].get("message", name))), "yellow")
        fields = schema.get("properties", {})
        needed = schema.get("required", ())
        content: dict[str, Any] = {}
        for field in fields:
            content.update(_ask_field(field, schema, field in needed))
        answers[name] = _accept_content(content)
    return answers


def schema_of(request: Any) -> Mapping[str, Any] | None:
    """The schema of a form, or None for another kind of request."""
    params = request.get("params") if isinstance(request, Mapping) else None
    schema = params.get("requestedSchema") if isinstance(params, Mapping) else None
    return schema if isinstance(schema, Mapping) else None


def _read_content(
    request: Any, schema: Mapping[str, Any], pairs: tuple[str, ...], text: str | None
) -> dict[str, Any]:
    content = read_arguments(schema, pairs, text)
    missing = [name for name in schema.get("required", ()) if name not in content]
    if missing or (not content and schema.get("properties")):
        fields = " ".join(f"--arg {name}=…" for name in missing or schema["properties"])
        message = request["params"].get("message")
        raise ArgumentError(f"The tool asks: {message} Answer with {fields}")
    return content


def _ask_field(name: str, schema: Mapping[str, Any], needed: bool) -> dict[str, Any]:
    while True:
        answer = ask_line(f"  {visible_name(name)}{'' if needed else ' (optional)'}: ")
        if not answer and not needed:
            return {}
        try:
            return read_arguments(schema, [f"{name}={answer}"])
        except ArgumentError as error:
            screen.fail(error)


def _accept_content(content: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": content}
