"""Import paths that programs use stay, wherever the code behind them moves."""

import importlib

import pytest

# What the documentation and the examples have imported, and what was promised beside that.
PATHS = {
    "wieldy": (
        "AlreadyDecided Argument Call CallNotFound Context DefinitionError DocumentError "
        "Handler Image InputNeeded InvalidArguments Limits LockError ModelUnavailable "
        "NameTaken Outcome Parked PassageNotFound PassageRepeated Progress Retention "
        "Secret Status Tool Toolbox VersionConflict"
    ),
    "wieldy.agent": "Agent ChatSessionExtension RunInterrupted",
    "wieldy.core.tool": "Tool",
    "wieldy.dialects.agently": "Agently AgentlyToolManager DataFormatter FunctionShifter",
    "wieldy.dialects.agentscope": "StdIOStatefulClient TextBlock ToolResponse ToolUseBlock Toolkit",
    "wieldy.dialects.artifactflow": (
        "AgentToolkit ArtifactManager BaseTool ToolParameter ToolPermission "
        "ToolPromptGenerator ToolRegistry ToolResult create_artifact_tools "
        "parse_tool_calls"
    ),
    "wieldy.dialects.sage": "MCPRegistry",
    "wieldy.mcp": "serve server",
    "wieldy.mcp.lock": "LOCK_FILE Lock",
    "wieldy.mcp.suspicion": "Finding examine suspicions",
    "wieldy.models": "Answers ModelRequest Reply Said find_model",
    "wieldy.server": "app",
    "wieldy.testing": "Answer ScriptedModel",
    "wieldy.tools.artifacts": "add_artifact_tools",
    "wieldy.wire": "anthropic openai",
    "wieldy.wire.anthropic": "StreamReader parse_calls render",
    "wieldy.wire.checking": "report",
    "wieldy.wire.gemini": "StreamReader parse_calls render",
    "wieldy.wire.openai": "StreamReader parse_calls render",
    "wieldy.wire.openai_responses": "StreamReader parse_calls render",
    "wieldy.wire.prompt": "format_result parse_result render_call tool_instructions",
    "wieldy.wire.structured": "StructuredError StructuredStream",
    "wieldy.wire.text": "TextCallParser",
}


@pytest.mark.parametrize("module", PATHS)
def test_a_path_that_was_shown_to_users_still_leads_there(module: str) -> None:
    found = importlib.import_module(module)

    assert [name for name in PATHS[module].split() if not hasattr(found, name)] == []
