"""One run's files: events that are torn, bad or taken back, a full disk, a folder that may not be written."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from itertools import count

import pytest

from engine.errors import InputError
from fnwork import run_folder
from fnwork.archive import Archive
from fnwork.run_folder import EventTail, RunReader, RunWriter, current, event_line, parse_event, request

FILES = {"spec.toml", "resolved.toml", "events.jsonl", "status.json", "lock"}


@pytest.fixture
def writer(tmp_path):
    writer = Archive(tmp_path / "experiments").create("one", "", {})
    yield writer
    writer.close()


def step(number, **values):
    return {"kind": "step", "t": float(number), "step": number, **values}


def test_events_come_back_as_written_values_that_are_not_finite_too(writer):
    event = step(1, loss=math.nan, grad_norm=math.inf, bytes={"weights": 5, "low": -math.inf}, note="é [red] \x1b[2J")
    writer.event(event)
    writer.flush()
    [read] = EventTail(writer.folder).read()
    assert math.isnan(read.pop("loss"))
    assert read == {key: value for key, value in event.items() if key != "loss"}


def test_every_line_is_strict_json():
    def refuse(word):
        raise AssertionError(word)

    line = event_line(step(1, loss=math.nan, list=[math.inf, 1.0]))
    assert json.loads(line, parse_constant=refuse)["loss"] == "NaN"
    assert line.endswith(b"\n") and line.count(b"\n") == 1


def test_a_torn_last_line_waits_for_its_rest(writer):
    tail = EventTail(writer.folder)
    path = writer.folder / "events.jsonl"
    whole = event_line(step(1))
    with path.open("ab") as file:
        file.write(whole + event_line(step(2))[:-9])
    assert [event["step"] for event in tail.read()] == [1]
    assert tail.read() == []
    with path.open("ab") as file:
        file.write(event_line(step(2))[-9:])
    assert [event["step"] for event in tail.read()] == [2]
    assert tail.bad == 0


def test_bad_lines_are_skipped_and_counted(writer):
    lines = [b"", b"nonsense", b"[1]", b"{}", b'{"kind": 1, "t": 0}', b'{"kind": "step", "t": "x"}', b"\xff\x00", b"5"]
    good = event_line(step(1))
    (writer.folder / "events.jsonl").write_bytes(good + b"\n".join(lines) + b"\n" + good)
    tail = EventTail(writer.folder)
    assert len(tail.read()) == 2
    assert tail.bad == len(lines) - 1  # an empty line is no event, and no fault either


def test_a_line_nested_beyond_reason_is_bad():
    assert parse_event(b"[" * 200_000) is None


def test_there_are_no_events_before_the_file_is(tmp_path):
    assert EventTail(tmp_path).read() == []


def test_what_a_resume_took_back_no_longer_counts():
    events = [step(1), step(2), step(3), {"kind": "warning", "t": 3.5}, {"kind": "resume", "t": 2.0}, step(3, loss=9)]
    assert current(events) == [step(1), step(2), {"kind": "resume", "t": 2.0}, step(3, loss=9)]


def test_current_follows_several_resumes():
    again = {"kind": "resume", "t": 1.0}
    assert current([step(1), step(2), again, step(2), step(3), again, step(2)]) == [step(1), again, again, step(2)]


def test_steps_reach_the_disk_by_the_beat_and_other_events_at_once(writer):
    tail = EventTail(writer.folder)
    writer.event(step(1))
    writer.event({"kind": "epoch", "t": 1.5})
    assert [event["kind"] for event in tail.read()] == ["step", "epoch"]
    writer.event(step(2))
    writer.beat()
    assert [event["kind"] for event in tail.read()] == ["step"]


def test_an_owner_clears_away_what_a_killed_one_left_half_written(writer):
    writer.event({"kind": "epoch", "t": 1.0})
    writer.close()
    with (writer.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "st')
    for name in ("status.json.tmp", ".last.safetensors.123.partial"):
        (writer.folder / name).write_bytes(b"half")
    again = RunWriter.own(writer.folder)
    assert {path.name for path in writer.folder.iterdir()} == FILES
    again.event({"kind": "epoch", "t": 2.0})
    again.close()
    tail = EventTail(writer.folder)
    assert [event["t"] for event in tail.read()] == [1.0, 2.0]
    assert tail.bad == 0


def test_status_keeps_what_is_not_changed_and_names_the_owner(writer):
    writer.status(epoch=4)
    status = RunReader(writer.folder).status()
    assert (status["name"], status["epoch"], status["state"], status["pid"]) == ("one", 4, "running", os.getpid())
    before = status["heartbeat"]
    writer.beat()
    assert RunReader(writer.folder).status()["heartbeat"] > before


def test_record_leaves_out_what_is_unknown(writer):
    writer.record({"reason": "finished", "best": None, "result": {"val_loss": math.nan, "x": None}, "list": (1, None)})
    record = RunReader(writer.folder).record()
    assert math.isnan(record["result"].pop("val_loss"))
    assert record == {"reason": "finished", "result": {}, "list": [1]}


def test_a_damaged_record_is_told_and_read_as_none(writer):
    (writer.folder / "record.toml").write_bytes(b"reason = \xff")
    reader = RunReader(writer.folder)
    assert reader.record() is None
    assert reader.problem == "record.toml: damaged"


def test_a_request_is_taken_once(writer):
    assert writer.taken_request() is None
    request(writer.folder, "stop")
    assert writer.taken_request() == "stop"
    assert writer.taken_request() is None
    request(writer.folder, "rm -rf /")
    assert writer.taken_request() is None


def test_a_request_to_a_run_that_is_gone_says_so(tmp_path):
    with pytest.raises(InputError, match="cannot ask gone to stop"):
        request(tmp_path / "gone", "stop")


class FullDisk:
    """An event file whose disk takes `room` more bytes."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, block):
        if self._room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(block[: self._room])
        self._room -= written
        return written

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_a_full_disk_leaves_whole_lines_only(writer, monkeypatch):
    writer.event({"kind": "epoch", "t": 1.0})
    monkeypatch.setattr(writer, "_events", FullDisk(writer._events, room=45))
    for number in range(2, 6):
        writer.event(step(number))
    with pytest.raises(OSError, match="No space left"):
        writer.flush()
    tail = EventTail(writer.folder)
    assert [event["t"] for event in tail.read()] == [1.0, 2.0]
    assert (writer.folder / "events.jsonl").read_bytes().endswith(b"\n")
    monkeypatch.undo()
    writer.event({"kind": "end", "t": 9.0})
    assert [event["t"] for event in tail.read()] == [9.0]
    assert tail.bad == 0


def test_a_full_disk_while_a_run_is_made_is_said_in_one_line(tmp_path, monkeypatch):
    def refuse(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_folder, "replace", refuse)
    archive = Archive(tmp_path / "experiments")
    with pytest.raises(InputError, match=r"cannot write in .*: No space left on device"):
        archive.create("one", "", {})
    assert [*archive.runs.iterdir()] == []


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.getuid() != 0, reason="needs a small file system")
def test_a_real_file_system_that_fills_up(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        writer = Archive(small).create("one", "", {})
        with pytest.raises(OSError, match="No space left"):
            for number in count():  # they are kept back for half a second
                writer.event(step(number))
        tail = EventTail(writer.folder)
        steps = [event["step"] for event in tail.read()]
        assert steps == list(range(len(steps))) and len(steps) > 1000
        assert tail.bad == 0
        assert RunReader(writer.folder).status()["name"] == "one"
        writer.close()
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no write permission on Windows")
def test_a_folder_that_may_not_be_written_is_said_in_one_line(tmp_path):
    if os.getuid() == 0:
        blocked = tmp_path / "file"
        blocked.write_text("")  # root may write everywhere, but not below a file
        pattern = "cannot write in .*: Not a directory"
    else:
        blocked = tmp_path / "read-only"
        blocked.mkdir(mode=0o555)
        pattern = "cannot write in .*: Permission denied"
    with pytest.raises(InputError, match=pattern):
        Archive(blocked).create("one", "", {})


def test_a_run_that_was_moved_away_reads_as_empty(writer):
    tail, reader = EventTail(writer.folder), RunReader(writer.folder)
    writer.close()
    shutil.rmtree(writer.folder)
    assert tail.read() == []
    assert reader.status() == {} and reader.resolved() == {} and reader.record() is None
    with pytest.raises(InputError, match=r"spec\.toml: No such file"):
        reader.spec_text()


def test_events_are_read_in_blocks_of_whole_lines(tmp_path):
    lines = [event_line({"kind": "step", "t": float(number), "loss": math.nan}) for number in range(1000)]
    lines[3:3] = [b"{\n", b"1,2\n", b'["a"]\n', b'{"kind": 1}\n']
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines) + b'{"kind": "st')
    tail, read = EventTail(tmp_path), []
    while events := tail.read(1000):
        assert len(events) < 40
        read += events
    assert [event["t"] for event in read] == list(range(1000))
    assert all(math.isnan(event["loss"]) for event in read)
    assert tail.bad == 4
    assert len(EventTail(tmp_path).read()) == 1000
