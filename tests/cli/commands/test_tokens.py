"""Tokens on the command line: made, listed, revoked."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from wieldy import Toolbox

STORE = ("--store", "sqlite:///wieldy.db")


def test_a_token_is_printed_once_and_then_only_described(command: Command) -> None:
    made = command(
        "token", "make", "ann", *STORE, "--role", "call", "--role", "approve", "--view", "v"
    )
    token = made.stdout.strip()
    assert (made.exit_code, token.startswith("wieldy_"), len(token) > 40) == (0, True, True)
    assert "can't be shown again" in made.stderr

    listed = command("token", "list")
    assert token not in listed.stdout
    (known,) = json.loads(command("token", "list", "--json").stdout)
    assert (known["name"], known["roles"], known["view"]) == ("ann", ["approve", "call"], "v")
    assert (known["state"], known["expires_at"]) == ("valid", None)


def test_a_revoked_token_is_listed_as_that(command: Command) -> None:
    command("token", "make", "ann", "--expires", "90d", *STORE)
    assert command("token", "revoke", "ann").exit_code == 0
    (known,) = json.loads(command("token", "list", "--json").stdout)
    assert known["state"] == "revoked"
    assert known["expires_at"] - known["created_at"] == pytest.approx(90 * 86400, abs=5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("make", "ann"), "Revoke it first"),
        (("make", "bob", "--expires", "soon"), "--expires takes a length of time"),
        (("make", "bob", "--role", "root"), "root"),
        (("link", "carol"), "no token that works 'carol'"),
        (("link", "ann", "--expires", "2d"), "a day at most"),
        (("link", "ann", "--expires", "never"), "--expires takes a length of time"),
        (("link", "ann", "--url", "ftp://x"), "--url is the address of a server"),
        (("revoke", "carol"), "no token 'carol'"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    command("token", "make", "ann", *STORE)
    done = command("token", *words)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("url", ["https://tools.example/", "https://tools.example/mcp"])
def test_a_link_signs_its_owner_in_once(command: Command, url: str, folder: Path) -> None:
    command("token", "make", "ann", "--role", "approve", *STORE)
    made = command("token", "link", "ann", "--url", url)
    address, _, key = made.stdout.strip().partition("#")
    assert (made.exit_code, address) == (0, "https://tools.example/sign-in")
    assert "signs ann in once" in made.stderr and key not in made.stderr
    assert key.encode() not in (folder / "wieldy.db").read_bytes()
    told = json.loads(command("token", "link", "ann", "--json").stdout)
    assert told["link"].startswith("http://127.0.0.1:8000/sign-in#wieldy_link_")

    async def use(key: str) -> str | None:
        async with Toolbox(store=f"sqlite:///{folder}/wieldy.db") as box:
            begun = await box.store.sign_ins.use_link(key)
            return None if begun is None else begun.token.name

    assert [asyncio.run(use(each)) for each in (key, key)] == ["ann", None]


def test_serve_says_that_stored_tokens_need_a_store(command: Command, folder: Path) -> None:
    (folder / "storeless.py").write_text("from wieldy import Toolbox\n\nbox = Toolbox()\n")
    done = command("serve", "storeless.py", "--stored-tokens", "--port", "0")
    assert (done.exit_code, "--stored-tokens needs a store" in done.stderr) == (2, True)
