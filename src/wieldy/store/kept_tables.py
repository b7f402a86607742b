"""The tables of what is kept beside calls: sessions, standing rules, states."""

from sqlalchemy import BigInteger, Column, Double, String, Table
from sqlalchemy import Text as SqlText

from .tables import Free, metadata

# One row for each chat history. Its messages have the positions from `first`, below which
# retention has removed them, up to `next`. `made` is the mark of the operation that made it.
sessions = Table(
    "wieldy_sessions",
    metadata,
    Column("id", Free, primary_key=True),
    Column("made", String(32), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("next", BigInteger, nullable=False),
)

# `mark` is on the first message of what was appended at once.
messages = Table(
    "wieldy_messages",
    metadata,
    Column("session", Free, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("message", SqlText, nullable=False),
    Column("mark", String(32)),
)

# `tools` are the fingerprints that an allow rule was made for, by the names of the tools.
rules = Table(
    "wieldy_rules",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("verdict", String(8), nullable=False),
    Column("pattern", Free, nullable=False),
    Column("conditions", SqlText, nullable=False),
    Column("reason", Free),
    Column("agent", Free),
    Column("session", Free),
    Column("tools", SqlText),
    Column("made_by", Free),
    Column("made_at", Double, nullable=False),
    Column("expires_at", Double),
)

states = Table(
    "wieldy_states",
    metadata,
    Column("name", Free, primary_key=True),
    Column("state", SqlText, nullable=False),
    Column("saved_at", Double, nullable=False),
)

# When work that all processes share was last done, by the store's own clock.
chores = Table(
    "wieldy_chores",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("done_at", Double, nullable=False),
)
