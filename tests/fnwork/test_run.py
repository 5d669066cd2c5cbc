"""One run: trained, stopped, paused, killed, resumed; and what it leaves in the archive."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from engine.errors import InputError, RunError
from fnwork import checkpoint, spec
from fnwork.archive import summary
from fnwork.run import Run
from fnwork.run_folder import EventTail, RunReader, request

ROOT = Path(__file__).parents[2]
UPDATES = 4 * 8  # epochs x windows: 120 train rows in windows of 16


def weights(folder):
    return {name: array.tobytes() for name, array in load_file(folder / "last.safetensors").items()}


def steps(folder):
    return [event["step"] for event in RunReader(folder).events() if event["kind"] == "step"]


def losses(folder):
    return [event["loss"] for event in RunReader(folder).events() if event["kind"] == "step"]


def stopping_after(run, step):
    """A listener that stops the run once it has made `step` updates."""

    def listen(event):
        if event["kind"] == "step" and event["step"] >= step:
            run.stop()

    return listen


@pytest.fixture
def whole(archive, spec_path):
    """The folder of a run that nothing interrupted."""
    return Run.start(archive, spec_path).execute().folder


def test_a_whole_run_leaves_everything_the_archive_promises(archive, spec_path):
    heard = []
    run = Run.start(archive, spec_path)
    assert run.state == "running"
    result = run.execute(heard.append)
    folder = run.folder
    assert (result.state, result.message, run.state) == ("finished", "all 4 epochs done", "finished")
    assert (folder / "spec.toml").read_bytes() == spec_path.read_bytes()
    assert {path.name for path in folder.iterdir()} == {
        "spec.toml",
        "resolved.toml",
        "events.jsonl",
        "status.json",
        "record.toml",
        "best.safetensors",
        "last.safetensors",
        "lock",
    }
    events = RunReader(folder).events()
    assert events == heard
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "start" and kinds[-1] == "end"
    assert {"step", "epoch", "memory", "checkpoint"} <= set(kinds)
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)
    assert steps(folder) == list(range(1, UPDATES + 1))
    listed = summary(folder)
    assert (listed.state, listed.epoch, listed.epochs, listed.tags) == ("finished", 4, 4, ("test",))
    assert set(listed.results) == {"train_loss", "train_accuracy", "val_loss", "val_accuracy"}
    best = max((event for event in events if event["kind"] == "epoch" and event["best"]), key=lambda e: e["epoch"])
    assert listed.results["val_accuracy"] == best["val_accuracy"] > 0.6
    record = RunReader(folder).record()
    assert record["reason"] == "finished" and record["best_epoch"] == best["epoch"]
    assert record["result"] == listed.results
    categories = {"weights", "gradients", "optimizer", "activations", "workspace", "data"}
    assert set(record["peak"]) == categories | {"total"}
    assert record["peak"]["total"] == sum(record["peak"][category] for category in categories)
    assert record["checklist"] and record["parameters"] == 3 * 8 + 8 + 8 * 2 + 2


def test_resolved_holds_every_value_and_where_they_came_from(whole, spec_path):
    resolved = RunReader(whole).resolved()
    assert resolved["train"]["clip_norm"] == 0.0 and resolved["memory"]["recompute"] == "none"
    assert resolved["data"]["path"] == "small.csv"
    assert resolved["used"]["data_path"] == str(spec_path.parent.resolve() / "small.csv")
    assert resolved["used"]["device"] and resolved["used"]["data_fingerprint"]
    assert set(resolved["versions"]) == {"fnwork", "python", "numpy", "system"}


def test_settings_change_the_spec_and_its_comments_survive(archive, spec_path):
    run = Run.start(archive, spec_path, ["train.epochs=1"])
    run.execute()
    text = RunReader(run.folder).spec_text()
    assert "# a small table" in text and "epochs = 1" in text
    assert summary(run.folder).epochs == 1


def test_a_run_of_a_text_finds_its_data_beside_the_base_folder(archive, spec_path):
    text = spec_path.read_text()
    result = Run.start(archive, (spec.parse(text), text, spec_path.parent)).execute()
    assert result.state == "finished"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["train.epochs=0"], "train.epochs"),
        (["data.path=missing.csv"], "missing.csv"),
        (["data.target=knd"], "kind"),
        (["train.epoch=3"], 'did you mean "epochs"'),
        (["memory.budget=100 B"], "--set: memory.budget: the peak"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_folder_is_made(archive, spec_path, settings, said):
    with pytest.raises(InputError, match=said):
        Run.start(archive, spec_path, settings)
    assert not archive.runs.exists()


def test_a_layer_that_does_not_fit_is_refused_at_its_line(archive, spec_path):
    text = spec_path.read_text().replace('type = "relu"', 'type = "conv"\nout = 4\nkernel = 3')
    spec_path.write_text(text)
    line = text[: text.index('[[model.layers]]\ntype = "conv"')].count("\n") + 1
    with pytest.raises(spec.SpecError, match=rf"small\.toml:{line}:\d+: model\.layers\.1: conv needs"):
        Run.start(archive, spec_path)
    assert not archive.runs.exists()


@pytest.mark.parametrize("step", [3, 8, 11, 24])
def test_stopped_and_resumed_equals_never_stopped_bit_for_bit(archive, spec_path, whole, step):
    run = Run.start(archive, spec_path)
    stopped = run.execute(stopping_after(run, step))
    assert stopped.state == "stopped"
    assert RunReader(run.folder).record()["reason"] == "stopped"
    assert step <= len(steps(run.folder)) <= step + 1
    heard = []
    resumed = Run.resume(archive, run.folder).execute(heard.append)
    assert resumed.state == "finished" and resumed.folder == run.folder
    assert steps(run.folder) == list(range(1, UPDATES + 1))
    assert losses(run.folder) == losses(whole)
    assert weights(run.folder) == weights(whole)
    assert resumed.results == summary(whole).results
    assert [event["kind"] for event in RunReader(run.folder).events()].count("start") == 1
    assert RunReader(run.folder).record()["best_epoch"] == RunReader(whole).record()["best_epoch"]


KILLED = """
import os, sys
from pathlib import Path
from fnwork import run as running
from fnwork.archive import Archive
from fnwork.run import Run

running._LAST_SECONDS = float(sys.argv[3])

def listen(event):
    if event["kind"] == "step" and event["step"] == 21:
        run._writer.flush()
        os.kill(os.getpid(), 9) if os.name == "posix" else os._exit(9)

run = Run.start(Archive(Path(sys.argv[1])), Path(sys.argv[2]))
run.execute(listen)
"""


@pytest.mark.parametrize(
    "last_seconds", ["60", "0"]
)  # the last checkpoint is the epoch's end, or the very update before
def test_killed_in_the_middle_it_is_interrupted_and_resumes_exactly(archive, spec_path, whole, last_seconds):
    subprocess.run([sys.executable, "-c", KILLED, archive.root, spec_path, last_seconds], cwd=ROOT, timeout=120)
    folder = next(path for path in archive.runs.iterdir() if path != whole)
    assert RunReader(folder).state() == "interrupted"
    assert steps(folder) == list(range(1, 22))
    run = Run.resume(archive, folder)
    heard = []
    assert run.execute(heard.append).state == "finished"
    assert next(event["step"] for event in heard if event["kind"] == "step") == (17 if last_seconds == "60" else 21)
    assert EventTail(folder).read()[-1]["kind"] == "end"
    assert steps(folder) == list(range(1, UPDATES + 1))
    assert losses(folder) == losses(whole)
    assert weights(folder) == weights(whole)
    epochs = [event["epoch"] for event in RunReader(folder).events() if event["kind"] == "epoch"]
    assert epochs == [1, 2, 3, 4]


def test_a_request_file_stops_a_run(archive, spec_path):
    run = Run.start(archive, spec_path, ["train.epochs=100000"])
    results = []
    thread = threading.Thread(target=lambda: results.append(run.execute()))
    thread.start()
    request(run.folder, "stop")
    # The owner forgets a request that is older than its start, so ask until it is met.
    while thread.is_alive():
        request(run.folder, "stop")
        thread.join(0.05)
    assert results[0].state == "stopped"
    assert RunReader(run.folder).state() == "stopped"


def test_a_paused_run_waits_says_so_and_goes_on(archive, spec_path):
    run = Run.start(archive, spec_path, ["train.epochs=100000"])
    thread = threading.Thread(target=run.execute)
    run.pause()
    thread.start()
    reader = RunReader(run.folder)
    while reader.state() != "paused":
        time.sleep(0.01)
    assert run.state == "paused"
    made = steps(run.folder)
    time.sleep(0.3)
    assert steps(run.folder) == made
    run.proceed()
    while len(steps(run.folder)) < len(made) + 2:
        time.sleep(0.01)
    assert reader.state() == "running"
    run.pause()
    while reader.state() != "paused":
        time.sleep(0.01)
    run.stop()
    assert run.state in ("stopping", "stopped")
    thread.join()
    assert (run.state, reader.state()) == ("stopped", "stopped")


def full_disk(*arguments, **changes):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_ends_the_run_in_one_line_and_it_stays_readable(archive, spec_path, monkeypatch):
    run = Run.start(archive, spec_path)
    monkeypatch.setattr(checkpoint.state_file, "save", full_disk)
    result = run.execute()
    assert result.state == "failed"
    assert result.message == f"cannot write in {run.folder}: No space left on device"
    assert RunReader(run.folder).state() == "failed"
    assert RunReader(run.folder).status()["message"] == result.message
    assert RunReader(run.folder).events()[-1]["reason"] == "failed"
    assert steps(run.folder) == list(range(1, 9))


def test_a_disk_that_takes_nothing_any_more_still_ends_cleanly(archive, spec_path, monkeypatch):
    run = Run.start(archive, spec_path)

    def fill_the_disk(event):
        if event["kind"] == "step" and event["step"] == 3:
            monkeypatch.setattr("fnwork.run_folder.replace", full_disk)
            monkeypatch.setattr(checkpoint.state_file, "save", full_disk)

    result = run.execute(fill_the_disk)
    assert result.state == "failed" and "No space left on device" in result.message
    monkeypatch.undo()
    assert summary(run.folder).problem == ""
    assert steps(run.folder)[:3] == [1, 2, 3]


def test_a_heartbeat_that_cannot_be_written_ends_the_run(archive, spec_path, monkeypatch):
    run = Run.start(archive, spec_path, ["train.epochs=100000"])
    monkeypatch.setattr(run._writer, "beat", full_disk)
    result = run.execute()
    assert result.state == "failed" and "No space left on device" in result.message


def test_a_failure_of_the_training_is_told_in_the_record(archive, spec_path, monkeypatch):
    run = Run.start(archive, spec_path)

    def fail():
        raise RunError("layer 2: values are not finite")
        yield

    monkeypatch.setattr(run._trainer, "run", fail)
    result = run.execute()
    assert (result.state, result.message) == ("failed", "layer 2: values are not finite")
    assert RunReader(run.folder).record()["message"] == "layer 2: values are not finite"


def test_a_fault_of_the_program_leaves_a_failed_run_and_is_not_swallowed(archive, spec_path, monkeypatch):
    run = Run.start(archive, spec_path)

    def fail():
        raise ZeroDivisionError("oops")
        yield

    monkeypatch.setattr(run._trainer, "run", fail)
    with pytest.raises(ZeroDivisionError):
        run.execute()
    assert RunReader(run.folder).state() == "failed"
    assert "ZeroDivisionError: oops" in RunReader(run.folder).status()["message"]


def test_what_cannot_be_resumed_is_refused_with_the_reason(archive, spec_path, whole):
    with pytest.raises(InputError, match="is finished: there is nothing left"):
        Run.resume(archive, whole)
    run = Run.start(archive, spec_path)
    with pytest.raises(InputError, match="needs no resume"):
        Run.resume(archive, run.folder)
    run.execute(stopping_after(run, 9))
    csv = spec_path.parent / "small.csv"
    data = csv.read_text()
    csv.write_text(data + "1,2,3,warm\n")
    with pytest.raises(InputError, match=r"small\.csv changed since"):
        Run.resume(archive, run.folder)
    csv.write_text(data)
    last = (run.folder / "last.safetensors").read_bytes()
    (run.folder / "last.safetensors").write_bytes(last[: len(last) // 2])
    with pytest.raises(InputError, match=r"last\.safetensors"):
        Run.resume(archive, run.folder)
    (run.folder / "last.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no last\.safetensors"):
        Run.resume(archive, run.folder)
    (run.folder / "last.safetensors").write_bytes(last)
    resolved = (run.folder / "resolved.toml").read_bytes()
    (run.folder / "resolved.toml").write_bytes(b"")
    with pytest.raises(InputError, match=r"resolved\.toml: missing or damaged"):
        Run.resume(archive, run.folder)
    (run.folder / "resolved.toml").write_bytes(resolved)
    assert Run.resume(archive, run.folder).execute().state == "finished"


def test_a_resume_works_from_anywhere(archive, spec_path, tmp_path, monkeypatch):
    monkeypatch.chdir(spec_path.parent)
    run = Run.start(archive, Path("small.toml"))
    run.execute(stopping_after(run, 3))
    monkeypatch.chdir(tmp_path)
    assert Run.resume(archive, run.folder).execute().state == "finished"


def test_the_test_part_is_evaluated_with_the_best_weights(archive, tmp_path):
    path = tmp_path / "images.toml"
    path.write_text(
        '[data]\ndataset = "fashion-mini"\n[[model.layers]]\ntype = "flatten"\n[[model.layers]]\ntype = "linear"\n'
        "[train]\nepochs = 2\nmicro_batch = 256\nlimit_windows = 30\n"
    )
    run = Run.start(archive, path)
    result = run.execute()
    assert result.state == "finished"
    end = RunReader(run.folder).events()[-1]
    assert end["test_accuracy"] == result.results["test_accuracy"] > 0.5
    assert RunReader(run.folder).record()["result"]["test_loss"] == end["test_loss"]
    assert json.loads((run.folder / "status.json").read_text())["results"]["test_accuracy"] == end["test_accuracy"]


def test_two_runs_of_one_process_do_not_share_a_folder(archive, spec_path):
    first, second = Run.start(archive, spec_path), Run.start(archive, spec_path)
    assert first.folder != second.folder
    assert first.execute().results == second.execute().results


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no write permission on Windows")
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(archive, spec_path):
    archive.root.chmod(0o555)
    with pytest.raises(InputError, match="cannot write in"):
        Run.start(archive, spec_path)
    archive.root.chmod(0o755)


@pytest.mark.parametrize(
    "text", [None, '[data]\ndataset = "fashion-mini"\n[model]\npreset = "cnn8"\noptions = { width = 0.5 }\n']
)
def test_what_a_run_was_resolved_to_gives_its_spec_back(archive, spec_path, text):
    from fnwork import prepare

    wanted = spec.parse(text or spec_path.read_text().replace('"small.csv"', '"/data/small.csv"'))
    assert prepare.spec_of(spec.resolved(wanted), "resolved.toml") == wanted


def test_a_damaged_status_is_repaired_by_a_resume(archive, spec_path):
    run = Run.start(archive, spec_path)
    assert run.execute(stopping_after(run, 12)).state == "stopped"
    wrong = {"state": 5, "epoch": "x", "epochs": None, "started": "yesterday", "results": 3, "pid": "a"}
    (run.folder / "status.json").write_text(json.dumps(wrong))
    assert "status.json: damaged" in summary(run.folder).problem
    assert Run.resume(archive, run.folder).execute().state == "finished"
    found = summary(run.folder)
    assert (found.state, found.problem, found.epoch, found.epochs, found.name) == ("finished", "", 4, 4, "small")
    assert found.started > 0 and RunReader(run.folder).record()["reason"] == "finished"


def test_the_epochs_of_a_run_are_the_ones_that_are_done(archive, spec_path):
    run = Run.start(archive, spec_path)
    run.execute(stopping_after(run, 12))
    assert (summary(run.folder).epoch, RunReader(run.folder).record()["epochs"]) == (1, 1)
    run = Run.resume(archive, run.folder)
    run.execute(stopping_after(run, 14))
    assert summary(run.folder).epoch == 1


def test_a_damaged_last_checkpoint_names_the_best_one(archive, spec_path):
    run = Run.start(archive, spec_path)
    run.execute(stopping_after(run, 12))
    (run.folder / "last.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"best\.safetensors is still there"):
        Run.resume(archive, run.folder)


def test_a_run_reads_its_table_once(archive, spec_path, monkeypatch):
    from fnwork.datasets import csv_file

    files, read = [], csv_file.read
    monkeypatch.setattr(csv_file, "read", lambda path: files.append(path.name) or read(path))
    Run.start(archive, spec_path).execute()
    assert files == ["small.csv"]
