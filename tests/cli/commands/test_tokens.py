"""Tokens on the command line: made, listed, revoked."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

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
        (("revoke", "carol"), "no token 'carol'"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    command("token", "make", "ann", *STORE)
    done = command("token", *words)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_serve_says_that_stored_tokens_need_a_store(command: Command, folder: Path) -> None:
    (folder / "storeless.py").write_text("from wieldy import Toolbox\n\nbox = Toolbox()\n")
    done = command("serve", "storeless.py", "--stored-tokens", "--port", "0")
    assert (done.exit_code, "--stored-tokens needs a store" in done.stderr) == (2, True)
