"""The bench runs with tiny counts and gives rows of a sane shape."""

import json
import math

import pytest

from bench.__main__ import main
from bench.effort import Effort
from bench.row import Row, amount, excess, ratio
from bench.rows import ROWS

TINY = Effort(0.001)


@pytest.mark.parametrize("name", ROWS)
def test_each_subject_gives_rows_with_numbers(name: str) -> None:
    rows = ROWS[name](TINY)

    assert rows
    for row in rows:
        assert row.name
        assert row.against
        assert all(math.isfinite(number) for number in (row.ours, row.reference, row.figure))
        assert row.target is not None


def test_ratio_is_met_up_to_its_target() -> None:
    assert ratio("a", 3.0, 2.0, "µs", "b", 1.5).met is True
    assert ratio("a", 3.2, 2.0, "µs", "b", 1.5).met is False
    assert ratio("a", 3.2, 2.0, "µs", "b", None).met is None


def test_amount_is_held_against_its_target_whatever_the_reference_takes() -> None:
    row = amount("a", 9.0, 30.0, "MB", "b", 10)

    assert row == Row("a", 9.0, 30.0, "MB", "b", 9.0, "MB", 10)
    assert row.met is True


def test_excess_is_what_we_take_beyond_the_reference() -> None:
    row = excess("a", 9.0, 3.0, "ms", "b", 5)

    assert (row.figure, row.sign, row.met) == (6.0, "ms more", False)


def test_table_is_printed_with_a_count_of_missed_targets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--rows", "concurrency", "--effort", "0.001"]) == 0

    shown = capsys.readouterr().out
    assert "a bare gather" in shown
    assert "of 2 targets missed" in shown


def test_json_has_one_object_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rows", "concurrency,schema", "--effort", "0.001", "--json"])

    rows = json.loads(capsys.readouterr().out)
    assert [set(row) for row in rows] == [
        {"name", "ours", "reference", "unit", "against", "figure", "sign", "target", "met"}
    ] * 4


def test_unknown_row_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "nonsense"])

    assert "catalog" in capsys.readouterr().err


def test_page_is_only_written_from_a_full_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "schema", "--write"])

    assert "all rows" in capsys.readouterr().err
