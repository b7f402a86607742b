"""The web application over a toolbox."""

try:
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError('Serving needs an extra: pip install "wieldy[server]"') from error

from .app import app, run

__all__ = ["app", "run"]
