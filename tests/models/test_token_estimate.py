"""How long a request is, before it is sent."""

import pytest

from wieldy import ContextTooLong
from wieldy.models import ModelRequest, Said
from wieldy.models.token_estimate import check_length, estimate_tokens
from wieldy.testing import ScriptedModel


def test_a_picture_counts_by_what_is_on_it_and_not_by_its_letters() -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 100_000
    picture = {"type": "image_url", "image_url": {"url": url}}
    body = ScriptedModel().render(ModelRequest([Said("user", [picture])]))
    assert estimate_tokens(body) < 2_000
    check_length("m", body, 2_000)


def test_an_excess_is_told_in_figures() -> None:
    with pytest.raises(ContextTooLong) as caught:
        check_length("m", {"messages": ["word " * 1000]}, 1_000)
    tokens, window, excess = caught.value.tokens, caught.value.window, caught.value.excess
    assert tokens is not None and (window, excess) == (1_000, tokens - 1_000)
    assert f"about {excess:,} more than the 1,000" in str(caught.value)


def test_where_the_context_is_not_known_nothing_is_refused() -> None:
    check_length("m", {"messages": ["word " * 100_000]}, None)
