"""Certificates are read once, and again only if the environment names others."""

import ssl
from pathlib import Path

import pytest

from wieldy.core.network.addresses import Reach
from wieldy.core.network.guarded_transport import GuardedTransport
from wieldy.core.network.server_trust import trusted_context


async def test_all_clients_have_one_context() -> None:
    contexts = set()
    for _ in range(2):
        async with GuardedTransport(Reach()) as transport:
            contexts.add(transport._pool._ssl_context)

    assert contexts == {trusted_context()}
    [context] = contexts
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_file_that_the_environment_names_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = trusted_context()
    (tmp_path / "empty.pem").touch()
    with monkeypatch.context() as patch, pytest.raises(ssl.SSLError):
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "empty.pem"))
        trusted_context()

    assert trusted_context() is before
