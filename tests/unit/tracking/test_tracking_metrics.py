from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from airlane.tracking.metrics import Block, MetricsFile, Sample, key_prefix


def line(t: float, **values: float) -> bytes:
    return json.dumps({"t": t, "m": values}).encode() + b"\n"


def take(file: MetricsFile, *, final: bool = False) -> list[Sample]:
    samples: list[Sample] = []
    while (block := file.read(final=final)) is not None:
        samples += block.samples
        file.advance(block)
    return samples


def test_samples_carry_mlflows_names_and_count_from_zero(tmp_path: Path) -> None:
    path = tmp_path / "0 'x'\n.metrics.jsonl"
    path.write_bytes(line(1.5, cpu_utilization_percentage=12.5) + line(11.5, cpu_utilization_percentage=13))
    assert take(MetricsFile(path, key_prefix(0, 1))) == [
        Sample("system/cpu_utilization_percentage", 12.5, 1500, 0),
        Sample("system/cpu_utilization_percentage", 13.0, 11500, 1),
    ]


def test_several_nodes_are_told_apart() -> None:
    assert key_prefix(0, 1) == "system/"
    assert key_prefix(3, 4) == "system/node_3/"


def test_no_file_yet_is_no_samples(tmp_path: Path) -> None:
    assert MetricsFile(tmp_path / "none", "").read() is None


def test_what_was_not_stored_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(line(1, a=1))
    file = MetricsFile(path, "")
    first = file.read()
    assert isinstance(first, Block)
    assert file.read() == first
    file.advance(first)
    assert file.read() is None


def test_the_last_line_of_a_finished_attempt_counts_without_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(line(1, a=1) + line(2, a=2).rstrip())
    file = MetricsFile(path, "")
    assert [s.value for s in take(file)] == [1]
    assert [s.value for s in take(file, final=True)] == [2]
    assert take(file, final=True) == []


def test_a_line_cut_short_for_ever_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'{"t": 1, "m": {"a"' + b"\n" + line(2, a=2) + b'[3]\n{"t": "x", "m": {}}\n{"t": 5, "m"')
    file = MetricsFile(path, "")
    assert [(s.value, s.step) for s in take(file, final=True)] == [(2, 1)]


def test_values_that_mlflow_cannot_draw_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'{"t": 1, "m": {"a": NaN, "b": Infinity, "c": null, "d": 4}}\n')
    assert [s.key for s in take(MetricsFile(path, ""))] == ["d"]


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_reading_between_any_two_writes_gives_every_sample_once(cuts: list[int]) -> None:
    content = b"".join(line(i, a=i, b=-i) for i in range(12))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        file = MetricsFile(path, "")
        samples: list[Sample] = []
        written = 0
        for cut in [*sorted(cuts), len(content)]:
            with path.open("ab") as grown:
                grown.write(content[written:cut])
            written = max(written, cut)
            samples += take(file)
    assert [(s.key, s.value, s.step) for s in samples] == [
        (key, sign * i, i) for i in range(12) for key, sign in (("a", 1), ("b", -1))
    ]


def test_a_large_backlog_is_read_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"".join(line(i, a=i) for i in range(20_000)))
    file = MetricsFile(path, "")
    first = file.read()
    assert first is not None
    assert len(first.samples) < 20_000
    samples = take(file)
    assert [s.step for s in samples] == list(range(20_000))
