"""A server written by hand: a process that imports the SDK takes a second to start.

Its tools are those named on its command line. Each says who owns the process, which process it
is and how many calls it had, except for `die`, which ends it.
"""

import json
import os
import sys
from typing import Any

calls = 0


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """What is answered to a request; None if the method is not known."""
    global calls
    if method == "initialize":
        info = {"name": "light", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {
            "tools": [{"name": each, "inputSchema": {"type": "object"}} for each in sys.argv[1:]]
        }
    if method == "tools/call":
        if params["name"] == "die":
            os._exit(1)
        calls += 1
        text = f"{os.environ.get('OWNER')} {os.getpid()} {calls}"
        return {"content": [{"type": "text", "text": text}]}
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            unknown = {"error": {"code": -32601, "message": "unknown"}}
            said = unknown if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)  # noqa: T201
