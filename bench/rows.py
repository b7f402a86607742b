"""All that `make bench` measures, by subject."""

from .agents import agents
from .blocking import blocking
from .calls import calls, crowd
from .catalog import catalog
from .concurrency import concurrency
from .dialects import dialects
from .gateway import gateway
from .ledger import ledger
from .listings import listings
from .mcp_calls import mcp_calls
from .openapi import openapi
from .passage import passage
from .processes import processes
from .programs import programs
from .row import Subject
from .schema import schema
from .search import search
from .serving import serving
from .startup import startup
from .stored_runs import stored_runs
from .structured import structured
from .text import text

# Calls come first: what ran before leaves objects behind that the collector looks at.
ROWS: dict[str, Subject] = {
    "import": startup,
    "call": calls,
    "crowd": crowd,
    "sync": blocking,
    "process": processes,
    "dialects": dialects,
    "concurrency": concurrency,
    "ledger": ledger,
    "program": programs,
    "schema": schema,
    "catalog": catalog,
    "search": search,
    "openapi": openapi,
    "structured": structured,
    "text": text,
    "passage": passage,
    "agent": agents,
    "runs": stored_runs,
    "serve": serving,
    "mcp": mcp_calls,
    "gateway": gateway,
    "listings": listings,
}
