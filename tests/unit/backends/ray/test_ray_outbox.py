"""The outbox: lines that say what they are, in files that follow one another."""

from __future__ import annotations

import base64
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.backends.ray.outbox import Feed, Outbox
from airlane.backends.ray.replica import Frame, Source
from airlane.backends.ray.wire import Kind, decode_frame, decode_lines, encode_frame, encode_line

REFUSED = r"File too large|No space left"
EVERY_BYTE = bytes(range(256))
LOG = "attempts/0/nodes/0.log"


def parts_of(folder: Path, name: str = "run") -> list[bytes]:
    found = sorted(folder.glob(f"{name}-*.out"), key=lambda file: int(file.stem.rpartition("-")[2]))
    return [file.read_bytes() for file in found]


def move_all(feed: Feed) -> None:
    while feed.move():
        pass


def frames_of(folder: Path) -> list[Frame]:
    """What a reader finds, who goes from part to part as they say."""
    frames: list[Frame] = []
    for part in parts_of(folder):
        lines = list(decode_lines(part))
        frames += [decode_frame(line.content) for line in lines if line.kind is Kind.FRAME]
        if lines[-1].kind is not Kind.NEXT:
            break
    return frames


frames = st.builds(
    Frame,
    st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1),
    st.none() | st.integers(0, 1 << 50),
    st.binary(max_size=300) | st.binary(min_size=1, max_size=4).map(lambda piece: piece * 500),
)


@given(frames)
def test_every_frame_survives_being_a_line(frame: Frame) -> None:
    line = encode_line(7, Kind.FRAME, encode_frame(frame))
    assert line.isascii()
    assert line.count(b"\n") == 1
    (decoded,) = decode_lines(line)
    assert (decoded.number, decoded.kind) == (7, Kind.FRAME)
    assert decode_frame(decoded.content) == frame


@given(st.binary(max_size=80), st.integers(0), st.integers(0, 7))
def test_a_line_with_one_wrong_bit_is_no_line(data: bytes, place: int, bit: int) -> None:
    line = bytearray(encode_line(3, Kind.FRAME, encode_frame(Frame("a.log", 0, data))))
    index = place % (len(line) - 1)
    line[index] ^= 1 << bit
    found = [decoded for decoded in decode_lines(bytes(line)) if line[index] != ord("\n")]
    # A hexadecimal digit may stand for itself in the other case.
    assert found == [] or bytes(line).lower() == encode_line(3, Kind.FRAME, found[0].content).lower()


@given(st.integers(0, 200))
def test_a_line_that_was_cut_is_no_line(cut: int) -> None:
    line = encode_line(3, Kind.FRAME, encode_frame(Frame("a.log", 0, EVERY_BYTE)))
    assert list(decode_lines(line[: cut % len(line)])) == []


@pytest.mark.parametrize("text", [b"\n", b"x\n", b"1 2\n", b"1 zz frame\n", b"-1 00000000 frame \n", b"\xff\xfe\n"])
def test_what_is_no_line_is_left_out(text: bytes) -> None:
    assert list(decode_lines(text)) == []


def test_text_is_packed_and_what_cannot_be_packed_is_not(tmp_path: Path) -> None:
    del tmp_path
    assert len(encode_frame(Frame("a.log", 0, b"step 1 loss 2.5\n" * 1000))) < 1000
    tiny = encode_frame(Frame("a.log", 0, b"x"))
    assert tiny.endswith(b" r " + base64.b64encode(b"x"))


def test_what_is_put_into_it_can_be_read(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "run")
    put = [Frame(LOG, 0, EVERY_BYTE), Frame(LOG, 256, b"ab\xff"), Frame("status.json", None, b"{}")]
    outbox.put(put[:2])
    outbox.put(put[2:])
    assert frames_of(tmp_path) == put


def test_the_last_line_of_what_is_written_at_a_time_is_short(tmp_path: Path) -> None:
    Outbox(tmp_path, "run").put([Frame(LOG, 0, EVERY_BYTE * 100)])
    (part,) = parts_of(tmp_path)
    assert len(part.splitlines()[-1]) < 40


def test_a_full_part_names_the_next_which_is_there_already(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "run", part_bytes=1000)
    put = [Frame(LOG, 100 * n, bytes([n]) * 3 + EVERY_BYTE) for n in range(20)]
    outbox.put(put)
    parts = parts_of(tmp_path)
    assert len(parts) > 5
    kinds = [[line.kind for line in decode_lines(part)] for part in parts]
    assert all(part[0] is Kind.BEGIN and part[-1] is Kind.NEXT for part in kinds[:-1])
    assert Kind.NEXT not in kinds[-1]
    assert max(map(len, parts)) < 1000 + 800
    assert frames_of(tmp_path) == put


def test_lines_are_numbered_from_the_beginning_of_their_part(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "run", part_bytes=1000)
    for n in range(20):
        outbox.put([Frame(LOG, n, EVERY_BYTE)])
    for part in parts_of(tmp_path):
        assert [line.number for line in decode_lines(part)] == list(range(part.count(b"\n")))


def test_the_end_is_the_last_line(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "run")
    outbox.put([Frame(LOG, 0, b"x")])
    outbox.end()
    (part,) = parts_of(tmp_path)
    assert list(decode_lines(part))[-1].kind is Kind.END


def test_it_may_lie_in_a_folder_and_is_private(tmp_path: Path) -> None:
    Outbox(tmp_path, "airlane/run").put([Frame(LOG, 0, b"x")])
    assert (tmp_path / "airlane").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "airlane/run-0.out").stat().st_mode & 0o777 == 0o600


def test_another_process_goes_on_after_the_first(tmp_path: Path) -> None:
    Outbox(tmp_path, "run").put([Frame(LOG, 0, b"one")])
    Outbox(tmp_path, "run").put([Frame(LOG, 3, b"two")])
    assert frames_of(tmp_path) == [Frame(LOG, 0, b"one"), Frame(LOG, 3, b"two")]


@given(st.integers(0))
def test_another_process_goes_on_after_one_that_died_at_any_byte(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("outbox")
    first = [Frame(LOG, 10 * n, b"x" * 10) for n in range(12)]
    Outbox(folder, "run", part_bytes=400).put(first)
    parts = sorted(folder.glob("*.out"), key=lambda file: int(file.stem.rpartition("-")[2]))
    whole = b"".join(file.read_bytes() for file in parts)
    kept = cut % (len(whole) + 1)
    for file in parts:  # as far as it came: later parts were never begun
        content = file.read_bytes()
        file.write_bytes(content[:kept])
        if kept <= 0:
            file.unlink()
        kept = max(0, kept - len(content))
    Outbox(folder, "run", part_bytes=400).put([Frame(LOG, 120, b"again")])
    found = frames_of(folder)
    assert found[-1] == Frame(LOG, 120, b"again")
    assert found[:-1] == first[: len(found) - 1]


def test_a_part_that_was_begun_and_not_yet_named_is_found_by_the_reader(tmp_path: Path) -> None:
    Outbox(tmp_path, "run").put([Frame(LOG, 0, b"one")])
    (tmp_path / "run-1.out").write_bytes(encode_line(0, Kind.BEGIN, b"1"))
    Outbox(tmp_path, "run").put([Frame(LOG, 3, b"two")])
    assert frames_of(tmp_path) == [Frame(LOG, 0, b"one"), Frame(LOG, 3, b"two")]


def test_names_that_begin_alike_are_not_mixed_up(tmp_path: Path) -> None:
    Outbox(tmp_path, "run-1").put([Frame(LOG, 0, b"other")])
    Outbox(tmp_path, "run").put([Frame(LOG, 0, b"mine")])
    assert parts_of(tmp_path, "run-1")
    assert not (tmp_path / "run-2.out").exists()
    assert (tmp_path / "run-0.out").exists()


def test_what_a_full_disk_refuses_is_written_later_in_order(tmp_path: Path) -> None:
    here, out = tmp_path / "here", tmp_path / "out"
    log = here / LOG
    log.parent.mkdir(parents=True)
    log.write_bytes(EVERY_BYTE * 20)
    feed = Feed(Source(here), Outbox(out, "run", part_bytes=2000), limit_bytes=1000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))  # in the middle of a line
    try:
        with pytest.raises(OSError, match=REFUSED):
            move_all(feed)
        written = parts_of(out)
        for _ in range(3):
            with pytest.raises(OSError, match=REFUSED):
                feed.move()
        assert parts_of(out) == written
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    move_all(feed)
    assert b"".join(frame.data for frame in frames_of(out)) == EVERY_BYTE * 20
    assert all(part.endswith(b"\n") for part in parts_of(out))
