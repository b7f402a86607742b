"""Which certificates of servers are trusted: one TLS context for all clients of a process.

To read the certificates of a system takes longer than a request, and clients come and go with
boxes, callers and keys.
"""

import os
import ssl
from functools import lru_cache

import httpx2


def trusted_context() -> ssl.SSLContext:
    """The context that trusts what the system trusts, or what the environment names instead."""
    return _read_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _read_certificates(file: str | None, folder: str | None) -> ssl.SSLContext:
    # httpx2 reads the two variables itself. Here they tell one context from another.
    return httpx2.create_ssl_context()
