"""A program of SAGE's MCPRegistry: a planner's steps over tool objects."""

from typing import Any, ClassVar

from wieldy.dialects.sage import MCPRegistry


class Calculator:
    name = "calculator"
    description = "Calculate with two numbers."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "number"},
            "op": {"type": "string", "enum": ["+", "-"], "default": "+"},
        },
        "required": ["a", "b"],
    }

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        sign = 1 if arguments["op"] == "+" else -1
        return {"output": arguments["a"] + sign * arguments["b"], "meta": {"exact": True}}


class Eraser:
    name = "rm_all"
    description = "Remove everything."

    def call(self, arguments: dict[str, Any]) -> str:
        return "everything is gone"


registry = MCPRegistry(validate=True, deny=["rm_*"], record=True)
registry.register(Calculator())
registry.register(Eraser())


def main() -> None:
    print(list(registry.execute("describe")))
    plan: list[dict[str, Any]] = [
        {"name": "calculator", "arguments": {"a": 40, "b": 2}},
        {"name": "calculator", "arguments": {"a": "forty", "b": 2}},
        {"name": "rm_all"},
        {"name": "translate", "arguments": {"text": "hello"}},
    ]
    for step in plan:
        try:
            print(registry.execute(step))
        except (KeyError, PermissionError, ValueError) as error:
            print(type(error).__name__)
    for record in registry.records:
        print(record["name"], record["ok"], record["meta"])


if __name__ == "__main__":
    main()

# > ['calculator']
# > {'output': 42, 'meta': {'exact': True}}
# > ValueError
# > PermissionError
# > KeyError
# > calculator True {'exact': True}
# > calculator False None
# > rm_all False None
# > translate False None
