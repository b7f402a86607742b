"""The strings that are one of few, as types: editors offer them, and type checkers know them.

Wrong strings from elsewhere are still refused where they are used, in words that
name the right ones.
"""

from typing import Literal

PermissionName = Literal["auto", "confirm", "deny"]
PermissionMode = Literal["ask", "read-only", "bypass"]
ValidationMode = Literal["repair", "strict", "describe"]
Isolation = Literal["inline", "thread", "process", "ray"]
ConflictPolicy = Literal["raise", "override", "skip", "rename"]
# An MCP server's tools are never a reason to raise: one is named after its server instead.
ServerConflictPolicy = Literal["override", "skip", "rename"]
ChangePolicy = Literal["block", "quarantine", "warn"]
Durability = Literal["full", "normal"]
ProviderFormat = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "gemini-openapi", "mcp"
]
TextDialect = Literal["xml", "hermes", "qwen", "invoke", "auto"]
CallState = Literal[
    "pending",
    "approved",
    "started",
    "ok",
    "error",
    "timeout",
    "interrupted",
    "denied",
    "expired",
    "unknown",
    "dry_run",
    "mode",
]
