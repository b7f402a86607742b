"""What `make run` starts: tools, calls, a run, an MCP server, and a link that signs in."""

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2

EXAMPLE = Path(__file__).parents[3] / "examples" / "console.py"


async def test_the_example_prints_a_link_to_look_around_and_to_decide(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE, "0", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        printed = (await process.stdout.readuntil(b"Ctrl-C")).decode()
        found = re.search(r"(http://\S+)/sign-in#(\S+)", printed)
        assert found is not None
        page, key = found.groups()
        async with httpx2.AsyncClient(base_url=page, timeout=60) as client:
            shown = await client.get("/sign-in")
            answer = await client.post("/sign-in", json={"key": key}, headers={"Origin": page})
            states: set[str] = set()
            while not states >= {"pending", "started", "ok", "error"}:
                listed = (await client.get("/api/calls")).json()["calls"]
                states = {each["state"] for each in listed}
            servers: list[dict[str, Any]] = []
            runs: list[dict[str, Any]] = []
            while not servers or [each["state"] for each in runs] != ["done"]:
                servers = (await client.get("/api/servers")).json()["servers"]
                runs = (await client.get("/api/runs")).json()["runs"]
            [waiting] = (await client.get("/api/pending")).json()["pending"]
            approve = f"/api/pending/{waiting['call_id']}/approve"
            async with httpx2.AsyncClient(base_url=page, timeout=60) as stranger:
                refused = await stranger.post(approve, json={}, headers={"Origin": page})
            decided = await client.post(approve, json={}, headers={"Origin": page})
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
    assert shown.status_code == 200 and "text/html" in shown.headers["content-type"]
    assert (runs[0]["agent"], servers[0]["name"]) == ("adder", "words")
    assert (refused.status_code, decided.json()["decision"]["by"]) == (401, "you")
    assert answer.json() == {"name": "you", "roles": ["administer", "approve", "call"]}
