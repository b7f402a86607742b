"""The `wieldy` command."""

import sys


def main() -> None:
    """Run the command."""
    try:
        # Its packages are an extra; without them there is one line to say.
        from .app import app  # noqa: PLC0415
    except ImportError as error:
        sys.exit(f'The wieldy command needs more packages ({error}): pip install "wieldy[cli]"')
    app()
