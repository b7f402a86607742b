"""A library that can't be had is reported and stops nothing."""

from pathlib import Path

import pytest

from bench.peers.__main__ import lines_of_findings
from bench.peers.peer import PEERS, Finding, Peer, measure


def test_library_whose_environment_can_not_be_made_is_a_finding(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "taken"
    not_a_folder.write_text("")
    missing = Peer("missing", "missing==1.0", "import missing", "missing")

    finding = measure(missing, not_a_folder)

    assert (finding.name, finding.version, finding.figures) == ("missing", "1.0", {})
    assert finding.failure


def test_failure_is_shown_in_the_table() -> None:
    _, line = lines_of_findings([Finding("missing", "1.0", failure="not found")])

    assert line == ("missing (not found)", "1.0", *["-"] * 8)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_library_has_a_fixed_version_and_a_probe(peer: Peer) -> None:
    assert "==" in peer.requirement
    assert (Path("bench") / "peers" / f"{peer.probe}.py").exists()
