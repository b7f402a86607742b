"""One request to a library's agent, in that library's environment: `agent_round PROBE`."""

import json
import sys
from importlib import import_module

from bench.peers.probe import agent_round


def main(probe: str) -> None:
    """Print the microseconds that a request with one call takes."""
    print(json.dumps(agent_round(import_module(f"bench.peers.{probe}").make_ask())))


if __name__ == "__main__":
    main(*sys.argv[1:])
