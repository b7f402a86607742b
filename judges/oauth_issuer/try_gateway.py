"""Come to a gateway with tokens of an OAuth issuer: right ones, and wrong ones of each kind.

Usage: try_gateway.py NODE, the folder where the issuer is installed. It is run in a namespace
of its own.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from processes import node_of, running, wait_for_port

ISSUER_PORT, GATEWAY_PORT = 8771, 8772
ISSUER, GATEWAY = f"http://127.0.0.1:{ISSUER_PORT}", f"http://127.0.0.1:{GATEWAY_PORT}/mcp"
TOOLS = """
from wieldy import Context, Toolbox

box = Toolbox()


@box.tool(read_only=True)
def who(context: Context) -> str:
    return str(context.scope.caller)


@box.tool
def wipe() -> str:
    return "wiped"
"""
FILE = f"""
[listen]
port = {GATEWAY_PORT}
[[sources]]
path = "tools.py"
[views.readers]
read_only = true
[access.oauth]
issuer = "{ISSUER}"
audience = "{GATEWAY}"
[[access.oauth.grants]]
claim = "scope"
has = "chief"
roles = ["call", "approve", "administer"]
[[access.oauth.grants]]
claim = "scope"
has = "tools"
roles = ["call"]
view = "readers"
"""


def make_keys() -> str:
    """The issuer's keys, with their private parts."""
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ec_key = ec.generate_private_key(ec.SECP256R1())
    keys = [
        {**jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key, as_dict=True), "kid": "r", "alg": "RS256"},
        {**jwt.algorithms.ECAlgorithm.to_jwk(ec_key, as_dict=True), "kid": "e", "alg": "ES256"},
    ]
    return json.dumps([{**key, "use": "sig", "key_ops": ["sign"]} for key in keys])


async def get_token(client: str, resource: str | None, scope: str) -> str:
    """A token of the issuer."""
    body = {"grant_type": "client_credentials", "scope": scope}
    if resource is not None:
        body["resource"] = resource
    async with httpx2.AsyncClient(auth=(client, f"{client}-secret"), timeout=60) as http:
        answer = await http.post(f"{ISSUER}/token", data=body)
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token


async def see_tools(token: str) -> tuple[list[str], str]:
    """The tools that the owner of a token sees, and the name that it has there."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(GATEWAY, http_client=http)) as client,
    ):
        names = [tool.name for tool in (await client.list_tools()).tools]
        said = await client.call_tool("who")
        return names, said.content[0].text


async def knock(token: str | None) -> tuple[int, str]:
    """How a request with a token is answered, and what it is told about tokens."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        answer = await http.post(GATEWAY, json=body)
        return answer.status_code, answer.headers.get("www-authenticate", "")


async def find_issuer(challenge: str) -> Any:
    """What a client without a token finds when it follows what it is told."""
    url = challenge.partition('resource_metadata="')[2].rstrip('"')
    async with httpx2.AsyncClient(timeout=60) as http:
        described = (await http.get(url)).json()
        assert described["resource"] == GATEWAY
        address = f"{described['authorization_servers'][0]}/.well-known/openid-configuration"
        return (await http.get(address)).json()


async def try_all() -> list[str]:
    """What is not as it should be."""
    failed = []

    def check(what: str, found: Any, expected: Any) -> None:
        print(f"{'ok' if found == expected else 'WRONG'}: {what}: {found}")
        if found != expected:
            failed.append(what)

    status, challenge = await knock(None)
    check("no token", status, 401)
    check("the way to the issuer", (await find_issuer(challenge))["issuer"], ISSUER)
    reader = await get_token("reader", GATEWAY, "tools")
    check("a reader", await see_tools(reader), (["who"], "oauth:reader"))
    chief = await get_token("chief", GATEWAY, "tools chief")
    check("a chief", await see_tools(chief), (["who", "wipe"], "oauth:chief"))
    other = await get_token("chief", "http://other.example.com/mcp", "chief")
    check("a token for another server", (await knock(other))[0], 401)
    elliptic = await get_token("chief", "http://other.example.com/elliptic", "chief")
    check("a token for another server, by another key", (await knock(elliptic))[0], 401)
    opaque = await get_token("chief", "http://opaque.example.com", "chief")
    check("a token that only the issuer reads", (await knock(opaque))[0], 401)
    without = await get_token("chief", GATEWAY, "")
    check("a token without a scope that is granted", (await knock(without))[0], 403)
    head, body, signature = chief.split(".")
    check("a token that was changed", (await knock(f"{head}.{body[:-4]}AAAA.{signature}"))[0], 401)
    return failed


def main(node: Path) -> int:
    """Start both, and try."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tools.py").write_text(TOOLS)
        (Path(folder) / "gateway.toml").write_text(FILE)
        script = "judges/oauth_issuer/issuer.mjs"
        issuer = [str(node_of(node)), script, str(node), str(ISSUER_PORT), GATEWAY]
        wieldy = str(Path(sys.executable).parent / "wieldy")
        gateway = [wieldy, "serve", f"{folder}/gateway.toml"]
        os.environ["ISSUER_KEYS"] = make_keys()
        with running(issuer) as issuing:
            wait_for_port(ISSUER_PORT, issuing)
            with running(gateway) as serving:
                wait_for_port(GATEWAY_PORT, serving)
                failed = asyncio.run(try_all())
    print("failed: " + ", ".join(failed) if failed else "the gateway and the issuer agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
