"""The suite runs, and ratios are not far off their bars. Ratios within one run only, with generous margins."""

import pytest

import hubarray as hub
from benchmarks import compare, data, harness, peers, report
from benchmarks import epochs as epochs_module
from benchmarks import table_scans as table_scans_module
from benchmarks.datasets import datasets
from benchmarks.epochs import epochs, forked_workers
from benchmarks.harness import Bar, Row, Timing, measure
from benchmarks.packs import packs
from benchmarks.reads import bulk_local, bulk_s3, random_s3, samples
from benchmarks.table_scans import table_index, table_scans
from benchmarks.table_sharing import table_sharing
from benchmarks.tables import table_costs, tables
from benchmarks.writes import assignments
from tests.rounds import rounds

pytestmark = pytest.mark.alone

MARGIN = 2.5


# Every day the cases that take seconds.
RATIOS = rounds([samples, bulk_local], [samples, bulk_local, bulk_s3, random_s3, assignments])
RUNS = rounds(
    [table_index, table_sharing],
    [datasets, tables, table_scans, table_index, table_sharing, epochs, forked_workers, packs],
)


@pytest.mark.parametrize("case", RATIOS, ids=lambda case: case.__name__)
def test_a_ratio_is_not_far_off_its_bar(case, isolated, monkeypatch):
    # Not all that happen to be installed: they take minutes, and some cannot be loaded beside torch.
    monkeypatch.setattr(peers, "MODULES", {name: peers.MODULES[name] for name in ("zarr", "h5py", "memmap")})
    # A minute for all of them: fewer rounds, and a volume of 34 MB, of which there is otherwise a least of 134 MB.
    monkeypatch.setattr(harness, "QUICK_ROUNDS", 7)
    volume = data.volume
    monkeypatch.setattr(data, "volume", lambda shape: volume((shape[0], 256, 256)))
    for row in case(25):
        assert row.timings["hubarray"].seconds, row.timings["hubarray"].error
        limits = [bar for bar in row.bars if bar.other.startswith("limit")]
        for bar in limits:
            speedup = row.speedup(bar.other)
            needed = 1 / bar.ratio if bar.kind == "at most" else bar.ratio
            assert speedup * MARGIN > needed, f"{row.case}: {speedup:.2f} of {bar.other}"
        assert hub.__name__ in report.markdown("x", [row], "command")


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.__name__)
def test_a_case_of_tables_and_epochs_runs(case, isolated, monkeypatch):
    monkeypatch.setattr(peers, "MODULES", {})
    monkeypatch.setattr(epochs_module, "PEERS", {"pyarrow loop": epochs_module.PEERS["pyarrow loop"]})
    monkeypatch.setattr(harness, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(table_scans_module, "STEP_ROWS", 1024)
    for row in case(1):
        assert not [item.error for item in row.timings.values() if item.error], row.case


def test_two_versions_are_compared_turn_by_turn(monkeypatch, capsys):
    command = ["compare", str(compare.HERE), "--rounds", "2", "--case", "bulk local, 3 MB"]
    monkeypatch.setattr(compare.sys, "argv", command)
    compare.main()
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| bulk local, 3 MB | 0.")


def test_a_contender_that_returns_other_values_is_not_ranked():
    contenders = {"hubarray": lambda: [1], "wrong": lambda: [2]}
    row = measure("x", contenders, size_bytes=1, expected=[1], rounds=1, quick_rounds=1)
    assert row.timings["wrong"].error == "returned other values"
    assert row.best_peer() is None


def test_bars_are_judged_by_medians():
    timings = {
        "hubarray": Timing([1.0, 9.0, 1.0]),
        "limit": Timing([1.2]),
        "peer": Timing([2.0]),
        "fast (raw)": Timing([0.1]),
    }
    bars = [Bar("limit", "at most", 1.0), Bar("limit", "at least", 1.3), Bar("best peer", "at least", 1.5)]
    verdicts = Row("x", "hubarray", 1, timings, bars).verdicts()
    assert [ok for _, _, ok in verdicts] == [True, False, True]
    assert "peer" in verdicts[2][0]


def test_what_a_request_costs_is_told_beside_the_constant_that_stands_for_it(isolated):
    for row in table_costs(4):
        assert row["the loader's constant, KiB"] > 0
        assert row["a request costs as much as so many KiB"] > 0
