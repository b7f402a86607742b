"""The tools of a strategy as the session, or the run, is shown them."""

from wieldy.view import View


async def session_view(view: View, session: str) -> View:
    """The same tools, listed for a session as it is now, in every process."""
    listed = view.view(session=session)
    await listed.refresh_list()
    return listed
