"""What a gateway's file may say: the tables of `gateway.toml` as types."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from wieldy.core.choices import ChangePolicy, EventKind, PermissionMode, PermissionName, Role
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.limits.limits import parse_rate
from wieldy.mcp.client.patience import MAX_MESSAGE
from wieldy.server.webhooks.webhook import EVENT_KINDS, NAME_PATTERN

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
# Paths, names and commands can't hold a NUL.
NO_NUL = r"^[^\x00]*$"
PlainText = Annotated[str, StringConstraints(pattern=NO_NUL)]
Text = Annotated[str, StringConstraints(min_length=1, pattern=NO_NUL)]
# inf and nan are refused.
Finite = Annotated[float, Field(allow_inf_nan=False)]
_MAX_SECONDS = 100 * 366 * 86400
_MAX_KEPT = 10**15
ValueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
# Seconds as a number, or a text such as "90s" or "7d".
Duration = Annotated[float | str, Field(description='Seconds, or a text such as "90s" or "7d".')]


class FileTable(BaseModel):
    """A table of the file. A key that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TlsTable(FileTable):
    """The paths of the certificate and of its key, as PEM files."""

    certificate: Text
    key: Text


class ListenTable(FileTable):
    """The address that the gateway listens on."""

    host: Text = Field(default="127.0.0.1", description="The address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="The port; 0 takes a free one.")
    hosts: list[Text] = Field(
        default=[], description="Names under which the gateway is reached, beside localhost."
    )
    origins: list[Text] = Field(
        default=[], description="Web pages that may call, such as https://app.example.com."
    )
    tls: TlsTable | None = Field(default=None, description="Serve https with this certificate.")
    trusted_proxies: list[Text] = Field(
        default=[], description="Addresses of proxies whose forwarded headers are believed."
    )
    max_sessions: int = Field(
        default=1000, ge=1, description="Open sessions of the older protocol."
    )
    max_values: int = Field(
        default=50_000, ge=1, description="Values that the JSON of one request may have."
    )
    grace: Finite = Field(
        default=30.0, ge=0, description="Seconds that running calls have at the end."
    )


class RetentionTable(FileTable):
    """How much of the past the store keeps."""

    days: Finite | None = Field(
        default=None, gt=0, le=36_600, description="Days that calls and sessions are kept."
    )
    calls: int | None = Field(
        default=None, gt=0, le=_MAX_KEPT, description="How many calls are kept."
    )
    messages: int | None = Field(
        default=None, gt=0, le=_MAX_KEPT, description="How many messages a session keeps."
    )
    versions: int | None = Field(
        default=None, gt=0, le=_MAX_KEPT, description="How many versions an artifact keeps."
    )


class ServerTable(FileTable):
    """An MCP server behind the gateway, as `mcpServers` files describe it."""

    command: Text | None = Field(default=None, description="The program to start.")
    args: list[PlainText] = Field(default=[], description="Its arguments.")
    env: dict[PlainText, PlainText] = Field(
        default={}, description="Its environment; ${NAME} is ours, ${caller.name} the caller's."
    )
    env_file: Text | None = Field(
        default=None, alias="envFile", description="A file with more of it."
    )
    cwd: Text | None = Field(default=None, description="Its working folder.")
    url: Text | None = Field(default=None, description="The address of a server over HTTP.")
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    headers: dict[str, PlainText] = Field(
        default={}, description="HTTP headers; ${NAME} is ours, ${caller.name} the caller's."
    )
    disabled: bool = Field(default=False, description="Leave this server out.")
    prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_-]{0,40}$",
        description="What the names of its tools and prompts begin with.",
    )
    allow: list[Text] | None = Field(
        default=None, description="Names or patterns of tools to take."
    )
    deny: list[Text] | None = Field(default=None, description="Names or patterns to leave out.")
    trusted: bool = Field(
        default=False,
        description="Believe its hints, such as read-only, and ask about none of its tools.",
    )
    permission: PermissionName | None = Field(
        default=None,
        description="The permission of its tools. Without it those ask that are said to destroy.",
    )
    tags: list[Text] = Field(default=[], description="Tags for its tools.")
    timeout: Finite | None = Field(default=None, gt=0, description="Seconds that a call may take.")
    max_result: int | None = Field(
        default=None,
        ge=0,
        description="Characters after which its results are cut; 0 for never.",
    )
    max_message: int = Field(
        default=MAX_MESSAGE, ge=1, description="Bytes that one message of the server may have."
    )
    listing: dict[str, PlainText] = Field(
        default={},
        description="What stands in for headers and variables with ${caller…} in them, when the "
        "gateway itself reads the tools. Without it they are left out.",
    )
    max_connections: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Connections or processes of callers, if each has their own.",
    )
    idle: Duration = Field(
        default=600.0, description="After how long without use a caller's connection is closed."
    )

    @field_validator("idle")
    @classmethod
    def _read_idle(cls, given: float | str) -> float:
        return read_seconds(given)


class SourceTable(FileTable):
    """A Python file or module with tools or an agent, an OpenAPI document, an mcpServers file."""

    path: Text = Field(description="The file, module:name, or URL.")
    isolation: Literal["thread", "process"] | None = Field(
        default=None, description="Where its functions run; `process` ends them at their timeout."
    )


class SearchTable(FileTable):
    """Clients see a few tools, and find and load the others."""

    budget: int = Field(
        default=10_000, ge=1, description="Tokens that the tools a client sees may take."
    )
    always: list[Text] = Field(
        default=[], description="Names or patterns of tools that every client sees."
    )


class CodeModeTable(FileTable):
    """Clients see one tool, which runs programs whose functions are the others."""

    budget: int = Field(
        default=10_000, ge=1, description="Tokens that the descriptions of functions may take."
    )
    always: list[Text] = Field(
        default=[], description="Names or patterns of tools that stay tools of their own."
    )
    seconds: Finite = Field(default=30.0, gt=0, description="Seconds that a program may work.")
    calls: int = Field(default=1_000, ge=1, description="Calls that a program may make.")


class SkillsTable(FileTable):
    """Folders of instructions that a model reads when it needs them."""

    folder: Text = Field(description="A skill's folder, or one with folders of skills in it.")
    scripts: bool = Field(default=True, description="Let their scripts run in the sandbox.")


class ViewTable(FileTable):
    """A part of the tools, by name. A tool is in it if it fits each key that is given."""

    tools: list[Text] | None = Field(default=None, description="Names or patterns of tools.")
    hide: list[Text] = Field(default=[], description="Names or patterns of tools to leave out.")
    tags: list[Text] | None = Field(default=None, description="Tags, of which a tool has one.")
    groups: list[Text] | None = Field(default=None, description="Groups of tools.")
    sources: list[Text] | None = Field(default=None, description="Sources, such as mcp:github.")
    read_only: bool | None = Field(default=None, description="Only tools that change nothing.")
    search: bool | None = Field(
        default=None,
        description="Whether its clients find tools by search; by default as without a view.",
    )
    code_mode: bool = Field(
        default=False, description="Show one tool, which runs programs with those of the view."
    )
    skills: bool | None = Field(
        default=None,
        description="Whether the tools of [skills] are in it; by default if they fit the rest.",
    )


class RuleTable(FileTable):
    """A rule on calls, as `box.rules` takes it."""

    verdict: Literal["allow", "ask", "deny"]
    tools: Text | None = Field(default=None, description='A name or a pattern such as "github_*".')
    where: dict[str, Any] | None = Field(
        default=None, description="Conditions on arguments by name."
    )
    reason: Text | None = Field(default=None, description="Why, for the person or the model.")
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    tags: list[Text] | None = None
    group: Text | None = None
    source: Text | None = None
    agent: Text | None = None
    session: Text | None = None
    caller: Text | None = None
    elicitation: bool | None = Field(
        default=None,
        description="For `ask`: whether an MCP client may put the question to its own user.",
    )


class GrantTable(FileTable):
    """The roles and view of a caller from an issuer, if a claim of the token fits."""

    claim: Text = Field(description="The name of the claim, such as groups or scope.")
    has: Text = Field(description="What the claim is, or has among its values.")
    roles: list[Role] = Field(min_length=1)
    view: Text | None = None


class OAuthTable(FileTable):
    """An OAuth issuer whose tokens are accepted."""

    issuer: Text = Field(description="The issuer, exactly as its tokens spell it.")
    audience: Text = Field(description="The address of this gateway's /mcp, as clients write it.")
    name_claim: Text = Field(default="sub", description="The claim with somebody's name.")
    jwks_uri: Text | None = Field(default=None, description="Where its keys are.")
    grants: list[GrantTable] = Field(
        default=[], description="What its people may do; the first that fits counts."
    )


class AccessTable(FileTable):
    """The callers that may come in."""

    tokens: bool = Field(default=False, description="Let in who has a token of `wieldy token`.")
    anonymous: bool = Field(default=False, description="Let other machines in without a token.")
    oauth: OAuthTable | None = Field(
        default=None, description="Let in who has a token of this issuer."
    )
    self_approval: bool = Field(
        default=False,
        description="Whether somebody with the role approve may approve calls of their own.",
    )
    elicitation: bool = Field(
        default=True,
        description="Whether an MCP client may put the question about its call to its own user.",
    )


class LimitTable(FileTable):
    """How often some calls may start, and how many of them may run at once."""

    rate: Text | None = Field(default=None, description='Starts per time, such as "60/min".')
    concurrent: int | None = Field(default=None, ge=1, description="How many may run at once.")

    @field_validator("rate")
    @classmethod
    def _check_rate(cls, given: str | None) -> str | None:
        try:
            return given if given is None or parse_rate(given) else None
        except ValueError:
            raise ValueError('a rate is written like "10/s", "60/min" or "1000/h"') from None


class CallerLimitTable(LimitTable):
    """Limits on the calls of a caller, and on those of some tools among them."""

    tools: dict[Text, LimitTable] = Field(
        default={}, description="Limits by the name of a tool, or by a pattern."
    )


class LimitsTable(FileTable):
    """Limits on calls. What is said of a caller by name holds in place of what is for each."""

    tools: dict[Text, LimitTable] = Field(
        default={}, description="Limits on the calls of everybody, by tool or pattern."
    )
    caller: CallerLimitTable | None = Field(
        default=None, description="Limits on the calls of each caller."
    )
    callers: dict[Text, CallerLimitTable] = Field(
        default={}, description="Limits on the calls of callers by name."
    )


class MetricsTable(FileTable):
    """The access to the figures at `/metrics`, beside those who administer."""

    enabled: bool = Field(default=True, description="Count calls, and serve /metrics.")
    public: bool = Field(default=False, description="Let everybody read /metrics.")
    token_file: Text | None = Field(
        default=None, description="A file with a bearer token that only reads /metrics."
    )


class TasksTable(FileTable):
    """The tasks of clients that know MCP's tasks."""

    enabled: bool = Field(default=True, description="Give out tasks at all.")
    after: Duration = Field(
        default=5.0, description="How long a call runs before its client gets a task."
    )
    required: list[Text] = Field(
        default=[], description="Names or patterns of tools for clients with tasks alone."
    )
    ask_first: list[Text] = Field(
        default=[], description="Names or patterns of tools whose questions come before the task."
    )

    @field_validator("after")
    @classmethod
    def _read_after(cls, given: float | str) -> float:
        return read_seconds(given)


class WebhookTable(FileTable):
    """An address that is told what happens, with signed messages."""

    name: str | None = Field(
        default=None,
        pattern=NAME_PATTERN,
        description="Its name for the API; without one, the host of its address.",
    )
    url: Text = Field(description="Where messages are sent; ${NAME} is ours.")
    secret: Text = Field(description="What signs the messages; ${NAME} is ours.")
    old_secret: Text | None = Field(
        default=None, description="A second secret that signs too, while the secret is changed."
    )
    events: list[EventKind] = Field(
        default=[*EVENT_KINDS], min_length=1, description="What it is told."
    )
    tools: Text | None = Field(default=None, description='A name or a pattern such as "github_*".')
    allow_private: bool = Field(
        default=False,
        description="Let the address be on this machine or its network, or without https.",
    )


class CallerTable(FileTable):
    """The roles and view of a caller with this name, whatever the token says."""

    roles: list[Role] | None = None
    view: Text | None = None
    values: dict[ValueName, Text] = Field(
        default={},
        description="What ${caller.values.NAME} in servers is for them; ${NAME} is ours.",
    )


class GatewayFile(FileTable):
    """The whole file."""

    name: Text = Field(default="wieldy", description="The name that clients are told.")
    instructions: Text | None = Field(default=None, description="What clients tell their model.")
    store: Text = Field(default="sqlite:///wieldy.db", description="Where calls are recorded.")
    lock: Text | None = Field(default=None, description="The lock file of the tools' definitions.")
    on_change: ChangePolicy = Field(default="block", description="What happens to a changed tool.")
    mode: PermissionMode = Field(default="ask", description="The permission mode.")
    approval_ttl: Duration | None = Field(
        default=None, description="How long a call waits for a person."
    )
    max_result: int = Field(
        default=MAX_RESULT,
        ge=0,
        description="Characters of one result that clients read; 0 for all.",
    )
    listen: ListenTable = ListenTable()
    retention: RetentionTable = RetentionTable()
    servers: dict[Text, ServerTable] = Field(default={}, description="MCP servers by name.")
    sources: list[SourceTable] = Field(default=[], description="Other sources of tools.")
    views: dict[Text, ViewTable] = Field(default={}, description="Parts of the tools by name.")
    search: SearchTable | None = Field(
        default=None, description="Show clients a few tools, and let them find the others."
    )
    code_mode: CodeModeTable | None = Field(
        default=None, description="Show clients one tool, which runs programs."
    )
    skills: SkillsTable | None = Field(default=None, description="Skills that clients may read.")
    rules: list[RuleTable] = Field(default=[], description="Rules on calls.")
    limits: LimitsTable = LimitsTable()
    access: AccessTable = AccessTable()
    metrics: MetricsTable = MetricsTable()
    tasks: TasksTable = TasksTable()
    webhooks: list[WebhookTable] = Field(default=[], description="Who is told what happens.")
    callers: dict[Text, CallerTable] = Field(
        default={}, description="What named callers may do and see."
    )

    @property
    def uses_search(self) -> bool:
        """Whether somebody finds tools by search."""
        return self.search is not None or any(view.search for view in self.views.values())

    @property
    def search_settings(self) -> SearchTable:
        """How tools are found by search, where a view asks for it alone too."""
        return self.search or SearchTable()

    @field_validator("approval_ttl")
    @classmethod
    def _read_ttl(cls, given: float | str | None) -> float | None:
        return None if given is None else read_seconds(given)


def read_seconds(given: float | str) -> float:
    """The seconds of a length of time; `ValueError` says how one is written."""
    if isinstance(given, str):
        pieces = _LENGTH.findall(given)
        if not pieces or "".join(map("".join, pieces)) != given:
            raise ValueError('a length of time is written like "90s", "30m", "12h" or "7d"')
        given = sum(float(size) * _UNITS[unit] for size, unit in pieces)
    if not 0 < given <= _MAX_SECONDS:
        raise ValueError("a length of time is more than 0, and a hundred years at most")
    return float(given)
