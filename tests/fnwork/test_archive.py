"""The experiments folder: creating, listing, finding, annotating and deleting runs, by several processes."""

import json
import platform
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from engine.errors import InputError
from fnwork.archive import Archive, summary
from fnwork.run_folder import EventTail, RunReader, RunWriter, owner_is_alive

ROOT = Path(__file__).parents[2]


def ended(archive, name="one", state="finished", **results):
    writer = archive.create(name, f'name = "{name}"\n', {"name": name}, spec=f"{name}.toml", tags=("first",), epochs=3)
    writer.status(state=state, epoch=3, results=results)
    writer.close()
    return writer.folder


def abandoned(archive, name="gone"):
    """A run whose owner was killed: its status says running and names a process that is gone."""
    folder = ended(archive, name, state="running")
    status = json.loads((folder / "status.json").read_bytes())
    (folder / "status.json").write_text(json.dumps({**status, "process_started": 1.0}))
    return folder


def child(code, *arguments):
    """A second Python process running `code` with the archive module imported."""
    prelude = "import sys, time\nfrom pathlib import Path\nfrom fnwork.archive import Archive\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_new_run_keeps_the_spec_byte_for_byte_and_is_listed(archive):
    text = '\ufeff# mine\r\nname = "one"\r\n'
    writer = archive.create("one", text, {"name": "one", "train": {"lr": 0.1, "none": None}}, spec="one.toml", epochs=3)
    assert (writer.folder / "spec.toml").read_bytes() == text.encode()
    assert RunReader(writer.folder).resolved() == {"name": "one", "train": {"lr": 0.1}}
    [run] = archive.list()
    assert (run.name, run.state, run.spec, run.epochs, run.problem) == ("one", "running", "one.toml", 3, "")
    writer.close()


def test_runs_of_one_second_get_different_folders(archive, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda form: "20260102-030405")
    folders = [ended(archive).name for _ in range(3)]
    assert folders == ["20260102-030405-one", "20260102-030405-one-2", "20260102-030405-one-3"]


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "..", "a\x1b[2Jb", "[red]x", "c:\\x", "x" * 500, ""])
def test_no_name_leads_out_of_the_runs_folder(archive, name):
    folder = ended(archive, name)
    assert folder.parent == archive.runs
    assert folder.resolve().parent == archive.runs.resolve()
    assert all(character.isalnum() or character in "._-" for character in folder.name)
    assert archive.list()[0].name == name


def test_results_that_are_not_finite_survive(archive):
    ended(archive, val_loss=float("nan"), train_loss=float("inf"), val_accuracy=0.5)
    results = archive.list()[0].results
    assert results["val_loss"] != results["val_loss"]
    assert results["train_loss"] == float("inf")
    assert results["val_accuracy"] == 0.5


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"\xff\xfe", b'{"state": 7, "name": [], "tags": 3, "results": 1}', b"[" * 100_000]
)
def test_a_damaged_status_never_breaks_the_list(archive, content):
    ended(archive, "good")
    broken = ended(archive, "broken")
    (broken / "status.json").write_bytes(content)
    runs = {run.name: run for run in archive.list()}
    assert runs["good"].state == "finished"
    assert runs["broken"].state == "interrupted"


def test_a_damaged_status_of_a_recorded_run_does_not_hide_how_it_ended(archive):
    folder = ended(archive)
    (folder / "record.toml").write_text('reason = "early-stopped"\n')
    (folder / "status.json").unlink()
    assert archive.list()[0].state == "early-stopped"
    assert archive.list()[0].problem == "status.json: missing"


def test_what_is_no_run_is_left_out(archive):
    ended(archive)
    (archive.runs / "a picture folder").mkdir()
    (archive.runs / ".hidden").mkdir()
    (archive.runs / "notes.txt").write_text("hello")
    (archive.runs / "20260102-030405-empty").mkdir()  # killed right after it was made
    assert [(run.name, run.state) for run in archive.list()] == [("empty", "interrupted"), ("one", "finished")]


def test_an_archive_that_is_not_there_lists_nothing(archive):
    assert archive.list() == []
    with pytest.raises(InputError, match="no runs"):
        archive.find("last")


def test_find_knows_folders_ids_names_prefixes_and_last(archive, monkeypatch):
    times = iter(["20260101-000000", "20260102-000000", "20260103-000000"])
    monkeypatch.setattr(time, "strftime", lambda form: next(times))
    old, new, other = ended(archive, "fashion-mlp"), ended(archive, "fashion-mlp"), ended(archive, "table")
    assert archive.find(old.name) == old
    assert archive.find("fashion-mlp") == new
    assert archive.find("fash") == new
    assert archive.find("20260101") == old
    assert archive.find("last") == other
    assert archive.find(str(old)) == old
    with pytest.raises(InputError, match="several runs"):
        archive.find("2026")
    with pytest.raises(InputError, match='did you mean "table"'):
        archive.find("tabel")
    with pytest.raises(InputError, match="fnwork runs"):
        archive.find("")


def test_notes_and_tags_are_kept_while_the_run_lives_too(archive):
    writer = archive.create("one", "", {}, tags=("a",))
    with pytest.raises(InputError, match=f"in use by process .*fnwork stop {writer.folder.name}"):
        archive.delete("one")
    archive.note("one", "a \x1b[31m note")
    archive.tag("one", "b")
    writer.status(state="finished")
    writer.close()
    archive.tag("one", "b")
    [run] = archive.list()
    assert (run.notes, run.tags, run.state) == ("a \x1b[31m note", ("a", "b"), "finished")


def test_a_status_with_values_of_the_wrong_kind_is_damaged_and_the_rest_of_it_counts(archive):
    folder = ended(archive, val_loss=0.5)
    status = json.loads((folder / "status.json").read_bytes())
    wrong = {"epoch": "x", "epochs": None, "started": "yesterday", "pid": "a", "tags": 3, "seconds": -1}
    (folder / "status.json").write_text(json.dumps(status | wrong))
    [run] = archive.list()
    assert run.problem == "status.json: damaged: epoch, epochs, pid, started, seconds, tags"
    assert (run.state, run.results, run.epoch, run.tags) == ("finished", {"val_loss": 0.5}, 0, ())


def test_a_run_of_a_lock_alone_can_be_deleted_by_its_id_and_its_path(archive):
    for reference in (lambda folder: folder.name, str):
        folder = archive.runs / "20260101-000000-torn"
        folder.mkdir(parents=True)
        (folder / "lock").touch()
        archive.delete(reference(folder))
        assert not folder.exists()


def test_a_run_that_cannot_be_deleted_stays_in_the_list(archive, monkeypatch):
    folder = ended(archive)

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(InputError, match=r"cannot delete .*: Permission denied"):
        archive.delete("one")
    assert [run.path for run in archive.list()] == [folder]
    assert [path.name for path in archive.runs.iterdir()] == [folder.name]


def test_delete_removes_the_run_and_nothing_else(archive, tmp_path):
    kept, doomed = ended(archive, "kept"), ended(archive, "doomed")
    archive.delete("doomed")
    assert not doomed.exists()
    assert [path.name for path in archive.runs.iterdir()] == [kept.name]
    outside = ended(Archive(tmp_path / "other"), "outside")
    for reference in (str(outside), f"{archive.runs}/../../other/runs/{outside.name}"):
        with pytest.raises(InputError, match="is not a folder in"):
            archive.delete(reference)
    assert (outside / "status.json").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_delete_does_not_follow_a_link(archive, tmp_path):
    outside = ended(Archive(tmp_path / "other"), "outside")
    archive.runs.mkdir(parents=True)
    (archive.runs / outside.name).symlink_to(outside)
    with pytest.raises(InputError, match="is not a folder in"):
        archive.delete("outside")
    assert (outside / "status.json").is_file()


def test_a_run_whose_process_is_gone_is_interrupted_and_can_be_owned_again(archive):
    folder = abandoned(archive)
    assert RunReader(folder).state() == "interrupted"
    writer = RunWriter.own(folder)
    writer.status(state="running")
    assert RunReader(folder).state() == "running"
    with pytest.raises(InputError, match="in use"):
        RunWriter.own(folder)
    writer.close()


def test_a_run_on_another_machine_is_judged_by_its_heartbeat(archive):
    folder = ended(archive, state="running")
    status = {**RunReader(folder).status(), "host": "elsewhere", "pid": 1, "process_started": 1.0}
    assert owner_is_alive({**status, "heartbeat": time.time() - 5})
    assert not owner_is_alive({**status, "heartbeat": time.time() - 600})
    (folder / "status.json").write_text(json.dumps({**status, "heartbeat": time.time()}))
    with pytest.raises(InputError, match="in use"):
        archive.delete("one")


@pytest.mark.parametrize("pid", [None, "7", -1, 2**70, 0])
def test_a_nonsensical_owner_is_not_alive(pid):
    assert not owner_is_alive({"host": platform.node(), "pid": pid, "process_started": 5.0})


WRITER = """
    writer = Archive(Path(sys.argv[1])).create("killed", 'name = "killed"', {"a": 1}, epochs=9)
    print(writer.folder, flush=True)
    step = 0
    while True:
        step += 1
        writer.event({"kind": "step" if step % 7 else "epoch", "t": step / 1000, "step": step, "loss": 1 / step})
        if step % 5 == 0:
            writer.beat()
        if step % 50 == 0:
            writer.record({"reason": "finished", "step": step})
"""


@pytest.mark.parametrize("size", [0, 1, 3_000, 200_000])
def test_killed_at_any_moment_the_archive_stays_readable_and_says_interrupted(archive, size):
    process = child(WRITER, archive.root)
    folder = Path(process.stdout.readline().strip())
    while (folder / "events.jsonl").stat().st_size < size:
        assert process.poll() is None
        time.sleep(0.001)
    if size:
        assert RunReader(folder).state() == "running"
    process.kill()
    process.wait()
    process.stdout.close()
    [run] = archive.list()
    assert (run.name, run.state, run.problem) == ("killed", "interrupted", "")
    assert "killed" in RunReader(folder).spec_text()
    tail = EventTail(folder)
    steps = [event["step"] for event in tail.read()]
    assert tail.bad == 0
    assert steps == list(range(1, len(steps) + 1))
    RunReader(folder).record()
    writer = RunWriter.own(folder)
    writer.event({"kind": "epoch", "t": 99.0})
    writer.close()
    events = tail.read()
    assert tail.bad == 0
    assert events[-1] == {"kind": "epoch", "t": 99.0}


def test_two_processes_on_one_folder_do_not_damage_each_other(archive):
    first = child(WRITER, archive.root)
    second = child(WRITER, archive.root)
    folders = [Path(process.stdout.readline().strip()) for process in (first, second)]
    assert folders[0] != folders[1]
    try:
        for folder, process in zip(folders, (first, second), strict=True):
            assert psutil.pid_exists(process.pid)
            with pytest.raises(InputError, match=f"in use by process {process.pid}"):
                RunWriter.own(folder)
            with pytest.raises(InputError, match="in use"):
                archive.delete(folder.name)
        assert [run.state for run in archive.list()] == ["running", "running"]
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
            process.stdout.close()


def test_a_reader_never_sees_half_a_status(archive):
    writer = archive.create("one", "", {})
    reader = RunReader(writer.folder)
    done = threading.Event()

    def write():
        for epoch in range(300):
            writer.status(epoch=epoch, message="x" * 5000)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while not done.is_set():
        seen.append(reader.status().get("epoch"))
    thread.join()
    writer.close()
    assert reader.problem == ""
    assert None not in seen
    assert seen == sorted(seen)


def test_starter_specs_come_with_a_new_folder_and_leave_what_is_there(archive):
    archive.specs.mkdir(parents=True)
    (archive.specs / "fashion-cnn.toml").write_text("# mine")
    archive.make()
    assert {"fashion-cnn", "fashion-mlp", "table-regression"} <= set(archive.spec_names())
    assert (archive.specs / "fashion-cnn.toml").read_text() == "# mine"
    assert list((archive.specs / "data").glob("*.csv"))  # the table that a starter trains on


def test_a_spec_is_found_by_path_or_name(archive, tmp_path):
    archive.specs.mkdir(parents=True)
    (archive.specs / "fashion-mlp.toml").write_text("")
    (tmp_path / "own.toml").write_text("")
    assert archive.find_spec("fashion-mlp") == archive.specs / "fashion-mlp.toml"
    assert archive.find_spec("fashion-mlp.toml") == archive.specs / "fashion-mlp.toml"
    assert archive.find_spec(str(tmp_path / "own.toml")) == tmp_path / "own.toml"
    with pytest.raises(InputError, match='did you mean "fashion-mlp"'):
        archive.find_spec("fashon-mlp")
    with pytest.raises(InputError, match="are: fashion-mlp"):
        archive.find_spec("something else")


def test_tags_are_replaced(archive):
    writer = archive.create("tagged", "", {}, tags=["old"])
    archive.retag("tagged", ["new", "odd", "new"])
    assert summary(writer.folder).tags == ("new", "odd")
    archive.retag("tagged", [])
    assert summary(writer.folder).tags == ()
    writer.close()


def test_a_spec_of_the_folder_goes_by_its_name(archive, tmp_path):
    for spec, shown in (
        (str(archive.specs / "quick.toml"), "quick"),
        (str(tmp_path / "other.toml"), str(tmp_path / "other.toml")),
        ("named", "named"),
    ):
        writer = archive.create("run", "", {}, spec=spec)
        assert summary(writer.folder).spec == shown
        writer.close()
