"""The `wieldy` command."""


def main() -> None:
    """Run the command."""
