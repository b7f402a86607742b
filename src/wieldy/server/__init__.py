"""The web application for a toolbox."""

try:
    from .app import app, run
except ModuleNotFoundError as error:
    raise ImportError(f'{error}. Serving needs an extra: pip install "wieldy[server]"') from error

__all__ = ["app", "run"]
