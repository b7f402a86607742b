"""What a person may ask and say about untrusted sessions."""

from wieldy.core.call import Call

from .untrusted_sessions import UntrustedSessions


class TrustDesk:
    """The sessions with a result from outside in them. None is the session of calls without one.

    Example:
        `await box.untrusted.clear("ann", by="bob", reason="the pages were ours")`
    """

    def __init__(self, sessions: UntrustedSessions) -> None:
        self._sessions = sessions

    async def holds(self, session: str | None = None) -> bool:
        """Tell whether a result from outside is in a session.

        Args:
            session: The session's id; None means the calls without a session.

        Returns:
            Whether rules with `untrusted=True` hold for its calls.

        Raises:
            StoreError: The store can't be read.
        """
        return await self._sessions.holds(session)

    async def mark(self, call: Call) -> None:
        """Count the session of a call as untrusted, because the call brought in outside text.

        Args:
            call: The call, or a call that stands for a request of another kind.

        Raises:
            StoreError: The store can't be written.
        """
        await self._sessions.add(call)

    async def clear(
        self, session: str | None = None, *, by: str | None = None, reason: str | None = None
    ) -> bool:
        """Count a session as trusted again, until the next result from outside.

        This is for a person who has looked at what is in the session. With a store it is
        recorded in the ledger.

        Args:
            session: The session's id; None means the calls without a session.
            by: Who says so, for the record.
            reason: Why, for the record.

        Returns:
            Whether the session was untrusted.

        Raises:
            StoreError: It can't be recorded, and the session stays untrusted.
        """
        return await self._sessions.clear(session, by, reason)
