"""The first program in a sandbox: it limits itself, and becomes what was asked for.

It is handed to the sandbox as text. Limits on the number of processes are set here and not
outside, because the system counts them by user in the namespace where they are set.
"""

import json
import os
import resource
import sys


def main(words: list[str]) -> None:
    """Set the limits given as JSON in the first word, and run the rest."""
    for name, most in json.loads(words[0]).items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    try:
        os.execvp(words[1], words[1:])
    except OSError as error:
        print(f"{words[1]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
