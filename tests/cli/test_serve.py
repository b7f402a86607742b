"""Serving: what is refused before anything listens."""

import socket

import pytest

from tests.cli.conftest import Command


def test_a_taken_port_is_said(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("serve", "--port", str(port))
    assert done.exit_code == 2
    assert f"Can't listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr


def test_others_are_let_in_only_with_tokens(command: Command) -> None:
    done = command("serve", "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "give each of them a token" in done.stderr


@pytest.mark.parametrize("given", ["justatoken", "=secret", "name="])
def test_a_token_without_a_name_is_refused_and_not_repeated(command: Command, given: str) -> None:
    done = command("serve", "--token", given)
    assert done.exit_code == 2
    assert "A token is given as NAME=TOKEN" in done.stderr
    assert given not in done.stderr


def test_nothing_is_written_to_stdout(command: Command) -> None:
    assert command("serve", "nowhere.py", "--stdio").stdout == ""
