"""The `wieldy` command."""

import sys


def main() -> None:
    """Run the command."""
    try:
        # The command's packages are an extra; without them the user gets one line of advice.
        from .app import app  # noqa: PLC0415
        from .closed_pipe import make_streams_quiet  # noqa: PLC0415
        from .screen import obey_no_color  # noqa: PLC0415
    except ImportError as error:
        sys.exit(f'The wieldy command needs more packages ({error}): pip install "wieldy[cli]"')
    make_streams_quiet()
    obey_no_color()
    app()
