"""The command line over an archive that is there: lists, records, comparison, notes; and what is typed wrongly."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fnwork import run_folder
from fnwork.archive import Archive
from fnwork.cli import build_parser, main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.fixture
def archive():
    return Archive(Path("experiments"))


def made(archive, name="one", state="finished", resolved=None, record=None, **results):
    writer = archive.create(name, f'name = "{name}"\n', resolved or {}, spec=f"{name}.toml", epochs=3)
    writer.event({"kind": "start", "t": 0.0, "epochs": 3})
    writer.event({"kind": "epoch", "t": 1.0, "epoch": 1, "step": 5, "val_loss": 0.5})
    writer.status(state=state, epoch=3, results=results, message="" if state == "finished" else "why")
    if record:
        writer.record(record)
    writer.close()
    return writer.folder


def refuse_constant(word):
    raise AssertionError(f"{word} is not JSON")


def json_of(capsys, *arguments):
    """The one document a command writes to stdout."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=refuse_constant)


def outside(*arguments, **options):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "fnwork", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **options)


def test_version_and_help_in_a_process_of_their_own():
    assert outside("--version").stdout.startswith("fnwork ")
    shown = outside("--help")
    assert shown.returncode == 0 and "fnwork run fashion-cnn" in shown.stdout


def test_help_is_a_word_too(capsys):
    assert main(["help", "runs"]) == 0
    assert "--where" in capsys.readouterr().out
    assert main(["help"]) == 0
    assert "fnwork COMMAND --help" in capsys.readouterr().out


def test_without_a_terminal_the_workbench_names_what_to_do_instead():
    result = outside(stdin=subprocess.DEVNULL)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "needs a terminal" in result.stderr and "fnwork run SPEC" in result.stderr
    assert not Path("experiments").exists()


def answering(monkeypatch, text):
    """A person at a terminal who answers questions with `text`."""
    answers = io.StringIO(text)
    for stream in (answers, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", answers)


@pytest.mark.parametrize("answer", ["\n", "y\n", "Yes\n"])
def test_in_a_terminal_an_experiments_folder_is_offered(monkeypatch, answer, capsys):
    answering(monkeypatch, answer)
    assert main(["check", "no-such-spec"]) == 2
    assert "Make one with the starter specs" in capsys.readouterr().err
    assert Path("experiments/specs/fashion-cnn.toml").is_file()


@pytest.mark.parametrize("answer", ["n\n", "no\n", "", "what?\n"])
def test_an_experiments_folder_that_is_not_wanted_is_not_made(monkeypatch, answer):
    answering(monkeypatch, answer)
    assert main(["check", "fashion-cnn"]) == 2
    assert not Path("experiments").exists()


def test_an_empty_experiments_folder_gets_the_starter_specs(capsys):
    Path("experiments").mkdir()
    assert main(["check", "fashion-cn"]) == 2
    assert 'did you mean "fashion-cnn"?' in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_not_said_to_be_made(monkeypatch, capsys):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["check", "fashion-cnn"]) == 2
    assert capsys.readouterr().err == "cannot make experiments: Permission denied\n"


def test_a_folder_is_no_spec_and_makes_nothing(capsys):
    for place in (".", "somewhere/else.toml"):
        assert main(["check", place]) == 2
    assert ".: this is a folder" in capsys.readouterr().err
    assert not Path("experiments").exists()


def test_attach_without_a_terminal_names_what_to_do_instead(archive, capsys):
    made(archive)
    assert main(["attach", "last"]) == 2
    assert "fnwork show" in capsys.readouterr().err


def test_the_command_line_itself_loads_nothing_heavy():
    code = "import sys, fnwork.cli; print([m for m in ('numpy', 'textual', 'pydantic', 'rich') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def commands():
    return next(action.choices for action in build_parser()._actions if action.choices)


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"example:\n  fnwork {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnus"], 'there is no "rnus" here; did you mean "runs"?'),
        (["run", "x", "--epochs", "3"], "--set train.epochs=3"),
        (["runs", "--wher", "x"], 'not understood: --wher; did you mean "--where"?'),
        (["data", "lst"], 'did you mean "list"?'),
        (["export", "last", "--to", "cvs"], 'did you mean "csv"?'),
        (["\x1b[2J"], 'there is no "␛[2J" here'),
        (["show"], "expected a RUN"),
        (["show", "nothing"], "no such run"),
        (["compare", "one"], "required: RUN"),
        (["runs", "--where", "val_accuracy>"], "expected a value"),
        (["check", "fashion-cn"], "no such spec"),
        (["stop", "last"], "there are no runs"),
        (["resume", "last"], "there are no runs"),
        (["data", "get"], "which data set? fnwork data get NAME, where NAME is mnist, fashion-mnist, cifar10\n"),
        (["data", "get", "mnits"], 'did you mean "mnist"?'),
        (["data", "get", "nosuch"], "there are: mnist, fashion-mnist, cifar10\n"),
        (["show", "last", "--model", "fashion-cnn"], "and not both"),
    ],
)
def test_what_is_typed_wrongly_is_said_in_a_line_and_ends_with_2(arguments, said, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err and "\x1b" not in captured.err


def test_runs_lists_newest_first(archive, capsys, monkeypatch):
    times = iter(["20260101-000000", "20260102-000000"])
    monkeypatch.setattr("time.strftime", lambda form: next(times))
    made(archive, "old", val_accuracy=0.5, val_loss=float("nan"))
    made(archive, "new", val_accuracy=0.75, state="failed")
    assert main(["runs"]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "state", "epochs", "val_accuracy", "val_loss", "tags", "notes"]
    assert first.split() == ["20260102-000000-new", "failed", "3/3", "75.00%", "-"]
    assert second.split() == ["20260101-000000-old", "finished", "3/3", "50.00%", "nan"]
    [new, old] = json_of(capsys, "runs")
    assert (new["id"], new["name"], new["state"], new["spec"]) == ("20260102-000000-new", "new", "failed", "new.toml")
    assert (old["val_accuracy"], old["val_loss"]) == (0.5, None)


def test_no_runs_are_said_on_stderr(capsys):
    assert main(["runs"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "no runs in experiments" in captured.err
    assert json_of(capsys, "runs") == []
    assert not Path("experiments").exists()


def test_the_experiments_folder_may_be_named_before_or_after_the_command(capsys):
    made(Archive(Path("elsewhere")))
    assert len(json_of(capsys, "--experiments", "elsewhere", "runs")) == 1
    assert len(json_of(capsys, "runs", "--experiments", "elsewhere")) == 1


def test_runs_are_filtered_by_results_states_and_keys_of_the_spec(archive, capsys):
    made(archive, "low", resolved={"train": {"lr": 0.001}}, val_accuracy=0.5)
    made(archive, "high", resolved={"train": {"lr": 0.1}}, val_accuracy=0.9)
    made(archive, "broken", state="failed", resolved={"train": {"lr": 0.1}})

    def names(*arguments):
        return sorted(run["name"] for run in json_of(capsys, "runs", *arguments))

    assert names("--where", "val_accuracy>0.8 and state=finished") == ["high"]
    assert names("--where", "train.lr=0.1") == ["broken", "high"]
    assert names("--where", "train.lr<1 and not state=failed") == ["high", "low"]
    assert names("--where", "epoch>5") == []
    assert main(["runs", "--where", "val_acuracy>0.8"]) == 2
    assert 'no run has a key "val_acuracy"; did you mean "val_accuracy"?' in capsys.readouterr().err
    assert main(["runs", "--where", "qqqq=1"]) == 2
    assert 'no run has a key "qqqq"; there are: val_accuracy, id, ' in (said := capsys.readouterr().err)
    assert "train.lr" in said


def test_runs_are_sorted_best_first_and_unknown_ones_last(archive, capsys):
    made(archive, "a", resolved={"train": {"lr": 0.3}}, val_accuracy=0.5, val_loss=0.2)
    made(archive, "b", resolved={"train": {"lr": 0.1}}, val_accuracy=0.9, val_loss=0.3)
    made(archive, "c", resolved={"train": {"lr": 0.2}}, val_accuracy=float("nan"))

    def names(key):
        return "".join(run["name"] for run in json_of(capsys, "runs", "--sort", key))

    assert names("val_accuracy") == "bac"
    assert names("val_loss") == "abc"
    assert names("train.lr") == "bca"
    assert names("name") == "abc"
    assert main(["runs", "--sort", "nonsense"]) == 2


def test_show_tells_the_record(archive, capsys):
    record = {
        "reason": "finished",
        "best_epoch": 2,
        "seconds": 75.2,
        "parameters": 12345,
        "result": {"val_loss": float("nan")},
        "peak": {"total": 2048, "weights": 1024},
        "checklist": [{"symptom": "loss does not fall", "state": "fine", "evidence": "0.5 after 2.3"}],
    }
    folder = made(archive, record=record, val_accuracy=0.9)
    assert main(["show", "last"]) == 0
    shown = capsys.readouterr().out
    for part in (folder.name, "finished", "90.00%", "12,345", "1:15", "2.0 KiB", "loss does not fall", "fine: 0.5"):
        assert part in shown
    document = json_of(capsys, "show", "one")
    assert document["id"] == folder.name and document["val_accuracy"] == 0.9
    assert document["record"]["peak"] == {"total": 2048, "weights": 1024}
    assert document["record"]["result"]["val_loss"] is None


@pytest.mark.parametrize("started", [1e300, -1e300, float("nan"), float("inf")])
def test_show_of_a_run_from_no_possible_time(archive, started):
    writer = archive.create("one", "", {})
    writer.status(state="finished", started=started)
    writer.close()
    assert main(["show", "one"]) == 0


@pytest.mark.parametrize("record", [b"\xff", b"checklist = 5\npeak = 3\nbest_epoch = []\n", b"checklist = [1]\n"])
def test_show_of_a_damaged_record(archive, capsys, record):
    folder = made(archive)
    (folder / "record.toml").write_bytes(record)
    assert main(["show", "last"]) == 0
    assert main(["show", "last", "--json"]) == 0


def test_compare_shows_only_what_differs(archive, capsys):
    made(archive, "a", resolved={"train": {"lr": 0.1, "epochs": 3}}, val_loss=0.5)
    made(archive, "b", resolved={"train": {"lr": 0.2, "epochs": 3}}, val_loss=float("inf"))
    document = json_of(capsys, "compare", "a", "b")
    assert document["keys"] == {"train.lr": [0.1, 0.2]}
    assert document["results"] == {"val_loss": [0.5, None]}
    assert main(["compare", "a", "b"]) == 0
    shown = capsys.readouterr().out
    assert "train.lr" in shown and "epochs" not in shown
    assert not shown.endswith("\n\n")
    assert main(["compare", "a", "a"]) == 0
    assert "(no key differs)" in capsys.readouterr().out


def test_note_and_tag_and_rm(archive, capsys):
    folder = made(archive)
    assert main(["note", "last", "a", "note"]) == 0
    assert main(["tag", "last", "baseline"]) == 0
    [run] = json_of(capsys, "runs")
    assert (run["notes"], run["tags"]) == ("a note", ["baseline"])
    assert main(["tag", "last", "\x1b[2J"]) == 2
    assert main(["rm", "one", "-y"]) == 0
    assert not folder.exists()


def test_rm_without_a_terminal_needs_to_be_sure(archive, capsys):
    folder = made(archive)
    assert main(["rm", "last"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert folder.exists()


def test_rm_in_a_terminal_asks(archive, monkeypatch):
    folder = made(archive)
    answering(monkeypatch, "n\n")
    assert main(["rm", "last"]) == 0
    assert folder.exists()
    assert main(["rm", "last", "--yes"]) == 0
    assert not folder.exists()


def test_a_run_that_is_alive_is_not_deleted(archive, capsys):
    writer = archive.create("one", "", {})
    for arguments in (["rm", "last", "-y"],):
        assert main(arguments) == 2
        assert "in use by process" in capsys.readouterr().err
    assert main(["resume", "last"]) == 2
    writer.close()
    assert writer.folder.exists()


def test_names_notes_and_tags_of_others_are_shown_harmlessly(archive, capsys):
    writer = archive.create("[red]\x1b[2J", "", {"\x1b]0;x\x07": 1}, spec="../../\x1b[31m")
    writer.status(state="finished", notes="two\nlines\x1b[5m", tags=["\x9b2J"], results={"val_\x1b[1m": 1.0})
    writer.record({"checklist": [{"symptom": "\x1b[2J", "state": "[/]", "evidence": "\r"}], "device": "\x1b[7m"})
    writer.close()
    other = made(archive, "two")
    for arguments in (["runs"], ["show", writer.folder.name], ["compare", writer.folder.name, other.name]):
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert not set(captured.out + captured.err) & set("\x1b\x9b\r\x07"), arguments
    assert json_of(capsys, "runs")[1]["notes"] == "two\nlines\x1b[5m"


def test_stop_leaves_a_request_and_tells_how_the_run_ended(archive, capsys, monkeypatch):
    writer = archive.create("one", "", {})

    def obey(folder, word):
        run_folder.request(folder, word)
        assert writer.taken_request() == "stop"
        writer.status(state="stopped")
        writer.close()

    monkeypatch.setattr("fnwork.commands.training.request", obey)
    assert main(["stop", "one"]) == 0
    assert capsys.readouterr().out == f"stopped: {writer.folder.name}\n"
    assert main(["stop", "one"]) == 2
    assert "is not running: it is stopped" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe's reader going away has no signal on Windows")
def test_a_pipe_whose_reader_went_away_is_no_failure(archive):
    for _ in range(30):
        made(archive)
    command = f"{sys.executable} -m fnwork runs --json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    result = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, env=environment
    )
    assert result.stdout == "[\n0\n"
    assert result.stderr == ""


def test_export_of_curves_and_formats_that_are_not_there_yet(archive, capsys):
    made(archive)
    assert main(["export", "last", "--to", "csv", "-o", "curves.csv"]) == 0
    assert Path("curves.csv").read_text() == "kind,t,epoch,step,val_loss\nepoch,1.0,1,5,0.5\n"
    assert main(["export", "last", "--to", "onnx"]) == 2
    assert 'there is no "onnx" here; there are: csv, safetensors' in capsys.readouterr().err
    assert main(["export", "last", "--to", "csv", "-o", "no/such/folder.csv"]) == 2
    assert capsys.readouterr().err == "no/such/folder.csv: cannot be written: there is no such folder\n"
    for place in ("", "."):
        assert main(["export", "last", "--to", "csv", "-o", place]) == 2
        assert "expected a file's name" in capsys.readouterr().err


def test_curves_that_are_not_there_are_not_exported(archive, capsys):
    folder = made(archive)
    (folder / "events.jsonl").write_bytes(b"\xff\n")
    assert main(["export", "last", "--to", "csv", "-o", "curves.csv"]) == 2
    assert "has no curves" in capsys.readouterr().err
    assert not Path("curves.csv").exists()


def test_export_leaves_the_archive_as_it_is(archive, capsys):
    folder, other = made(archive), made(archive, "other")
    before = (other / "events.jsonl").read_bytes()
    Path("link").symlink_to(other / "events.jsonl")
    for place in (other / "events.jsonl", folder / "curves.csv", archive.runs, Path("link")):
        assert main(["export", folder.name, "--to", "csv", "-o", str(place)]) == 2
        assert "lies in the archive" in capsys.readouterr().err
    assert (other / "events.jsonl").read_bytes() == before and not (folder / "curves.csv").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links and named pipes")
def test_export_goes_through_links_and_pipes_and_keeps_a_files_permissions(archive, capsys):
    made(archive)

    def export(place):
        return main(["export", "last", "--to", "csv", "-o", place])

    Path("link").symlink_to("target")
    assert export("link") == 0
    assert Path("link").is_symlink() and Path("target").read_text().startswith("kind,")
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert export("pipe") == 0
    assert os.read(reader, 1000) == Path("target").read_bytes()
    os.close(reader)
    Path("mine").write_text("old")
    Path("mine").chmod(0o600)
    capsys.readouterr()
    assert export("mine") == 0
    captured = capsys.readouterr()
    assert "note: mine was there, and is replaced" in captured.err and captured.out == "mine\n"
    assert Path("mine").stat().st_mode & 0o777 == 0o600


def test_export_to_stdout_is_the_file_alone(archive):
    made(archive)
    result = outside("export", "last", "--to", "csv", "-o", "-")
    assert (result.stdout, result.stderr) == ("kind,t,epoch,step,val_loss\nepoch,1.0,1,5,0.5\n", "")
    assert not Path("-").exists()


def test_data_list_info_and_get(capsys):
    names = [entry["name"] for entry in json_of(capsys, "data", "list")]
    assert {"fashion-mini", "mnist", "fashion-mnist", "csv"} <= set(names)
    info = json_of(capsys, "data", "info", "fashion-mini")
    assert (info["train_samples"], info["validation_samples"], info["test_samples"]) == (5400, 600, 1000)
    assert main(["data"]) == 0
    assert main(["data", "info", "fashion-mini"]) == 0
    assert "Trouser" in capsys.readouterr().out
    assert main(["data", "get", "fashion-mini"]) == 0
    assert "nothing to get" in capsys.readouterr().err
    for wrong in (["list", "x"], ["info", "fashion-mini", "--path", "/nowhere"]):
        assert main(["data", *wrong]) == 2
        assert "no path" in capsys.readouterr().err
    assert main(["data", "info", "mnsit"]) == 2
    assert 'did you mean "mnist"?' in capsys.readouterr().err
