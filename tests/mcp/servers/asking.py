"""A server of the newest version whose tools need more before they go on."""

import mcp_types as types
from mcp.server.mcpserver import Context as ServerContext
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import RequestStateSecurity


def make_asking() -> MCPServer:
    # The same key in every process, so that another one can go on.
    security = RequestStateSecurity(keys=["a key for tests, thirty-two bytes long"])
    asking = MCPServer("asking", request_state_security=security)

    @asking.tool()
    async def order(
        item: str, ctx: ServerContext
    ) -> types.InputRequiredResult | types.CallToolResult:
        """Order something; the size is asked for."""
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"size": {"type": "string"}}}
            question = types.ElicitRequest(
                params=types.ElicitRequestFormParams(message="Which size?", requested_schema=schema)
            )
            return types.InputRequiredResult(
                input_requests={"size": question}, request_state=f"asked about {item}"
            )
        given = ctx.input_responses["size"]
        said = f"{item}: {given.action}, {given.content}, {ctx.request_state}"  # type: ignore[union-attr]
        return types.CallToolResult(content=[types.TextContent(text=said)])

    @asking.tool()
    async def slow(ctx: ServerContext) -> types.InputRequiredResult | types.CallToolResult:
        """Be ready the third time it is asked."""
        times = int(ctx.request_state or 0)
        if times < 2:
            return types.InputRequiredResult(request_state=str(times + 1))
        return types.CallToolResult(content=[types.TextContent(text="ready")])

    return asking


if __name__ == "__main__":
    make_asking().run("stdio")
