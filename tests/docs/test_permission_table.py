"""The table of modes, traits and rules says what a toolbox does."""

from tests.docs.permission_table import make_table, read_table


async def test_the_table_of_the_page_is_what_a_toolbox_decides() -> None:
    assert read_table() == await make_table()
