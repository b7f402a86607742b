"""A program of ArtifactFlow's tools: a model's XML becomes calls, and a person is asked first."""

import asyncio

from wieldy.dialects.artifactflow import (
    ArtifactManager,
    BaseTool,
    ToolParameter,
    ToolPermission,
    ToolPromptGenerator,
    ToolRegistry,
    ToolResult,
    create_artifact_tools,
    parse_tool_calls,
)


class PublishTool(BaseTool):
    def __init__(self) -> None:
        super().__init__(
            name="publish",
            description="Publish an artifact.",
            permission=ToolPermission.CONFIRM,
        )

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("id", "string", "which artifact"),
            ToolParameter("copies", "integer", "how many", required=False, default=1),
        ]

    async def execute(self, id: str, copies: int) -> ToolResult:
        return ToolResult(success=True, data={"published": id, "copies": copies})


WRITTEN = """I will write it down and publish it.
<tool_call>
  <name>create_artifact</name>
  <params>
    <id><![CDATA[plan]]></id>
    <title><![CDATA[A plan]]></title>
    <content><![CDATA[Buy tea & <b>biscuits</b>.]]></content>
  </params>
</tool_call>
<tool_call><name>publish</name><params><id>plan</id><copies>2</copies></params></tool_call>
"""


async def main() -> None:
    manager = ArtifactManager()
    manager.set_session("monday")
    registry = ToolRegistry()
    for tool in [*create_artifact_tools(manager), PublishTool()]:
        registry.register_tool_to_library(tool)
    toolkit = registry.create_agent_toolkit("lead", ["create_artifact", "publish"])
    print(ToolPromptGenerator.generate_tool_instruction(toolkit.list_tools()).count("### "))

    for call in parse_tool_calls(WRITTEN, toolkit.list_tools()):
        result = await toolkit.execute_tool(call.name, call.params)
        if "interrupt" in result.metadata:
            print("asked:", result.metadata["interrupt"]["params"])
            answer = {"type": "permission", "approved": True}
            result = await toolkit.resume(result.metadata["pending"], answer)
        print(ToolPromptGenerator.format_tool_result(call.name, result))
    await manager.close()


if __name__ == "__main__":
    asyncio.run(main())

# > 2
# > <tool_result>
# >   <name>create_artifact</name>
# >   <success>true</success>
# >   <data><id>plan</id><version>1</version><kind>create</kind></data>
# > </tool_result>
# > asked: {'id': 'plan', 'copies': 2}
# > <tool_result>
# >   <name>publish</name>
# >   <success>true</success>
# >   <data><published>plan</published><copies>2</copies></data>
# > </tool_result>
