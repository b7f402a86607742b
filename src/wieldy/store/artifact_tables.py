"""The tables of artifacts: what there is in each session, and every version of it."""

from sqlalchemy import Column, Double, Index, Integer, String, Table

from .tables import Free, metadata

# `key` is a digest of the session and the id, and `shelf` of the session alone: an index can't
# hold texts of any length. `birth` tells an artifact from one of its id that was deleted before.
artifacts = Table(
    "wieldy_artifacts",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("shelf", String(64), nullable=False),
    Column("birth", String(32), nullable=False),
    Column("session", Free),
    Column("id", Free, nullable=False),
    Column("title", Free),
    Column("content_type", Free, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    Index("wieldy_artifacts_shelf", "shelf", "created_at"),
)

# `mark` is drawn for each change, so that a change that is made twice knows itself. `by` is who
# made it, for a tool the id of its call; `similarity` is there where a near match was replaced.
artifact_versions = Table(
    "wieldy_artifact_versions",
    metadata,
    Column("birth", String(32), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("mark", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("content", Free, nullable=False),
    Column("size", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("by", Free),
    Column("similarity", Double),
)
