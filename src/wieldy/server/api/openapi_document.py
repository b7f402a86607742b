"""The OpenAPI document of the API, made of the operations themselves."""

import inspect
import re
from collections.abc import Iterable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .api_operations import ApiOperation
from .api_problems import ProblemAnswer

PREFIX = "/api"
_REFS = "#/components/schemas/{model}"
_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "Whoever runs the server has it.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "wieldy_session",
        "description": (
            "Of somebody who signed in with a browser. The name ends with the port, as in "
            "`wieldy_session_8000`, if the address has one, and begins with `__Host-` over https."
        ),
    },
}
_DESCRIPTION = (
    "Read and make calls, decide on those that wait, and look after the gateway. "
    "Every answer that is not a success has an `error` with a stable `code`."
)
_ESCAPING = "Percent-encoded; `~2F` and so on stand for characters that proxies change."


def make_document(operations: Iterable[ApiOperation]) -> dict[str, Any]:
    """The document, as OpenAPI 3.1."""
    known = [*operations]
    names, schemas = _make_schemas(known)
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _describe(each, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wieldy gateway",
            "version": version("wieldy"),
            "description": _DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SCHEMES},
    }


Names = dict[type[BaseModel], dict[str, Any]]


def _make_schemas(operations: list[ApiOperation]) -> tuple[Names, dict[str, Any]]:
    """A reference for each model, and the schemas that they refer to."""
    bodies = [each.body for each in operations if each.body is not None]
    answers = [each.answer for each in operations if each.answer is not None]
    taken = dict.fromkeys(bodies, "validation")
    given = dict.fromkeys([*answers, ProblemAnswer], "serialization")
    models = [*taken.items(), *given.items()]
    found, definitions = models_json_schema(models, ref_template=_REFS)  # type: ignore[arg-type]
    references = {
        model: schema for (model, _), schema in found.items() if issubclass(model, BaseModel)
    }
    return references, definitions.get("$defs", {})


def _describe(operation: ApiOperation, names: Names) -> dict[str, Any]:
    summary, _, more = inspect.cleandoc(operation.run.__doc__ or "").partition("\n")
    parts = [part.strip() for part in (more, _tell_roles(operation)) if part.strip()]
    told: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.path.split("/")[1]],
        "summary": summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": _describe_answers(operation, names),
    }
    if parts:
        told["description"] = "\n\n".join(parts)
    if operation.body is not None:
        schema = names[operation.body]
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return told


def _tell_roles(operation: ApiOperation) -> str:
    if not operation.roles:
        return ""
    roles = dict.fromkeys((*operation.roles, "administer"))
    return f"This needs the role {' or '.join(roles)}."


def _path_parameters(operation: ApiOperation) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", operation.path)
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": _ESCAPING,
        }
        for name in names
    ]


def _query_parameters(operation: ApiOperation) -> list[dict[str, Any]]:
    schema = operation.query.model_json_schema()
    required = schema.get("required", ())
    return (
        [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": {key: value for key, value in facts.items() if key != "description"},
                **({"description": facts["description"]} if "description" in facts else {}),
            }
            for name, facts in schema["properties"].items()
        ]
        if "properties" in schema
        else []
    )


def _describe_answers(operation: ApiOperation, names: Names) -> dict[str, Any]:
    if operation.answer is None:
        content: dict[str, Any] = {operation.media_type: {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": names[operation.answer]}}
    answers: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in operation.statuses
    }
    problem = {"application/json": {"schema": names[ProblemAnswer]}}
    answers["default"] = {"description": "What is wrong.", "content": problem}
    return answers
