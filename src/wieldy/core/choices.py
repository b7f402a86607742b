"""The fixed choices of strings, as types: editors offer them, and type checkers know them.

A wrong string that no type checker saw is refused where it is used, with a message that
lists the right ones.
"""

from typing import Literal

PermissionName = Literal["auto", "confirm", "deny"]
# The laxest first: of the modes that apply to a call, the strictest wins.
PermissionMode = Literal["bypass", "accept-edits", "ask", "dont-ask", "dry-run", "read-only"]
ValidationMode = Literal["repair", "strict", "describe"]
Isolation = Literal["inline", "thread", "process", "ray"]
ConflictPolicy = Literal["raise", "override", "skip", "rename"]
# There is no "raise" for MCP servers: a tool whose name is taken gets its server's name as well.
ServerConflictPolicy = Literal["override", "skip", "rename"]
ChangePolicy = Literal["block", "quarantine", "warn"]
Durability = Literal["full", "normal"]
ProviderFormat = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "gemini-openapi", "mcp"
]
TextDialect = Literal["xml", "hermes", "qwen", "invoke", "auto"]
# The roles of a caller: to call tools, to decide on others' calls, to change the gateway.
Role = Literal["call", "approve", "administer"]
# The events that webhooks can be told of.
EventKind = Literal["call.pending", "call.decided", "call.failed", "tool.changed"]
# The states of a message to a webhook.
DeliveryState = Literal["waiting", "delivered", "failed"]
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

# The states of calls that have ended, and will not change any more.
ENDED_STATES = ("ok", "error", "timeout", "interrupted", "denied", "expired", "dry_run", "mode")
