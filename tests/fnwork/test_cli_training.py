"""Training and using a model from the command line, as a user does it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from fnwork.archive import Archive
from fnwork.cli import main
from fnwork.commands.progress import Progress
from fnwork.run_folder import RunReader

ROOT = Path(__file__).parents[2]
ENDLESS = ["--set", "train.epochs=1000000"]
HUGE = 'model.layers=[{type="linear", out=100000}, {type="linear", out=100000}, {type="linear"}]'
IMAGES = """\
name = "images"
[data]
dataset = "fashion-mini"
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"
[train]
epochs = 1
micro_batch = 100
limit_windows = 20
"""


@pytest.fixture(autouse=True)
def in_the_folder_of_the_experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.fixture
def small(spec_path):
    """The name of a spec that trains in a moment."""
    return spec_path.stem


def started(*arguments):
    """The command in a process of its own, which has begun to train."""
    command = [sys.executable, "-m", "fnwork", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    folder = Path(process.stdout.readline().removeprefix("run: ").strip())
    reader = RunReader(folder)
    wait_for(lambda: reader.status().get("pid") == process.pid, process)  # a resumed run has events of its first owner
    wait_for(lambda: any(event["kind"] == "epoch" for event in reader.events()), process)
    return process, folder


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def json_of(capsys, *arguments):
    capsys.readouterr()
    code = main([*arguments, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_run_prints_the_folder_and_one_plain_line_an_epoch(small, capsys):
    assert main(["run", small]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run: experiments/runs/".replace("/", os.sep))
    assert Path(lines[0].removeprefix("run: ")).is_dir()
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/4", "2/4", "3/4", "4/4"]
    for part in ("train_loss", "val_accuracy", "samples/s", "iB"):
        assert part in epochs[0]
    best = max((line for line in epochs if line.endswith("best")), key=epochs.index)
    assert lines[-1].startswith(f"finished  best epoch {best.split()[1][0]}:  train_loss ")


def test_a_window_that_is_tried_again_is_told_once(tmp_path, capsys):
    (tmp_path / "resolved.toml").write_text("[train]\nlimit_windows = 0\n")
    with Progress(tmp_path, to_stderr=False) as progress:
        for step in (8, 9, 9, 9):
            fault = {"kind": "nonfinite", "t": 1.0, "where": "loss", "layer": "linear3", "step": step, "action": "skip"}
            progress.take(fault)
    assert [line.split(",")[1] for line in capsys.readouterr().out.splitlines()] == [" step 8: skip", " step 9: skip"]


def test_run_json_is_one_document_and_the_epochs_go_to_stderr(small, capsys):
    assert main(["run", small, "--json", "--set", "train.epochs=2"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["state"] == "finished" and document["val_accuracy"] == document["record"]["result"]["val_accuracy"]
    assert "epoch 2/2" in captured.err
    assert document["message"] == document["record"]["message"]
    assert json_of(capsys, "show", "last") == document


def test_run_takes_a_path_and_makes_the_experiments_folder(spec_path, tmp_path, monkeypatch, capsys):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["run", os.path.join("..", "experiments", "specs", "small.toml"), "--set", "train.epochs=1"]) == 0
    captured = capsys.readouterr()
    assert "made experiments with the starter specs" in captured.err
    assert Archive(Path("experiments")).list()[0].state == "finished"
    assert {"fashion-cnn", "fashion-mlp", "table-regression"} <= set(Archive(Path("experiments")).spec_names())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "smal"], 'did you mean "small"?'),
        (["run", "small", "--set", "train.epoch=3"], 'did you mean "epochs"?'),
        (["run", "small", "--set", "train.epochs"], "KEY=VALUE"),
        (["run", "small", "--set", "train.epochs=-1", "--set", "train.lr=0"], "train.lr"),
        (["run", "small", "--set", "data.path=gone.csv"], "gone.csv"),
        (["check", "small", "--set", "train.optimizer=adm"], 'did you mean "adam'),
        (["check", "small", "--set", "data.target=knd"], "kind"),
        (["check", "small", "--set", "memory.budget=100 B"], "the peak will be"),
        (["run", "small", "--set", "memory.budget=100 B"], "--set: memory.budget: the peak will be"),
        (["run", "small", "--set", HUGE], ": model: the peak will be"),
        (["check", "small", "--set", HUGE], "are there; fnwork fit"),
        (["check", "small", "--set", "device.use=cuda:99"], "--set: device.use: "),
        (["check", "small", "--set", "data.path=gone.csv"], "--set: data.path: "),
        (["check", "small", "--set", 'precision.keep_fp32=["linear9"]'], "--set: precision.keep_fp32: there is no"),
        (["check", "small", "--set", "data.validation=0.999"], "--set: data.validation: 0.999 leaves no samples"),
        (["check", "small", "--set", "model.layers.0.out=0"], "--set: model.layers.0: linear: out must be at least 1"),
        (["check", "small", "--set", "model.layers.1.type=max_pool"], "--set: model.layers.1: max_pool"),
        (["forecast", "small", "--set", "memory.budget=6"], "memory.budget"),
        (["test", "small"], "no such run"),
    ],
)
def test_wrong_input_is_said_and_ends_with_2(small, capsys, arguments, said):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err and "Traceback" not in captured.err
    assert captured.out == ""
    assert not Path("experiments/runs").exists()


def test_what_the_data_lacks_is_said_at_its_line_of_the_spec(small, spec_path, capsys):
    (spec_path.parent / "small.csv").write_text("a,b,kind\n1,2,x\n1,y\n")
    for command in ("check", "run", "forecast"):
        assert main([command, small]) == 2
        said = capsys.readouterr().err
        assert "small.toml:8:1: data.path: " in said and "small.csv, line 3: 2 values" in said


def test_check_refuses_a_crop_that_loses_sight_of_the_pictures(capsys):
    Path("images.toml").write_text(IMAGES.replace("[data]\n", '[data]\naugment = ["crop:28"]\n'))
    for command in ("check", "run"):
        assert main([command, "images.toml"]) == 2
        assert "data.augment: " in (said := capsys.readouterr().err) and "out of sight" in said
        assert "\nimages.toml:3:1: " in f"\n{said}"


def test_check_of_a_good_spec_says_nothing_and_of_a_bad_one_everything(small, spec_path, capsys):
    assert main(["check", small]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""
    text = spec_path.read_text().replace("epochs = 4", 'epochs = "4"\noptimiser = "adam"')
    spec_path.write_text(text)
    assert main(["check", small]) == 2
    said = capsys.readouterr().err
    assert "small.toml:27:10: train.epochs" in said and "small.toml:28:1: train.optimiser" in said
    assert 'did you mean "optimizer"?' in said


def test_forecast_equals_the_peak_that_the_run_measures(small, capsys):
    forecast = json_of(capsys, "forecast", small)
    run = json_of(capsys, "run", small)
    assert forecast["peak"] == run["record"]["peak"]
    assert [layer["name"] for layer in forecast["layers"]] == ["linear1", "relu1", "dropout1", "linear2"]
    assert set(forecast["layers"][0]) == {"name", "parameters", "saved_bytes", "output_shape"}
    assert sum(layer["parameters"] for layer in forecast["layers"]) == run["record"]["parameters"]
    assert 0 < max(point["total"] for point in forecast["timeline"]) <= forecast["peak"]["total"]
    assert main(["forecast", small, "--set", "memory.budget=1 MiB"]) == 0
    shown = capsys.readouterr().out
    assert "linear1" in shown and "█" in shown and "fits in the budget" in shown


def test_fit_names_settings_that_fit_and_writes_them_into_the_spec(small, spec_path, capsys):
    peak = json_of(capsys, "forecast", small)["peak"]["total"]
    assert main(["fit", small, "--budget", f"{peak - 300} B"]) == 0
    assert "micro_batch = " in capsys.readouterr().out
    assert "-> " not in spec_path.read_text() and "budget" not in spec_path.read_text()
    found = json_of(capsys, "fit", small, "--budget", f"{peak - 300} B")
    assert found["chosen"] in found["frontier"] and found["chosen"]["peak"] <= found["budget"] == peak - 300
    spec_path.chmod(0o640)
    assert main(["fit", small, "--budget", f"{peak - 300} B", "--write"]) == 0
    assert f'budget = "{peak - 300} B"' in capsys.readouterr().err
    assert sys.platform == "win32" or spec_path.stat().st_mode & 0o777 == 0o640
    assert "# a small table" in spec_path.read_text()
    document = json_of(capsys, "forecast", small)
    assert document["peak"]["total"] <= document["budget"] == peak - 300
    assert main(["fit", small, "--budget", "10 B"]) == 2
    assert "nothing fits in 10 B" in capsys.readouterr().err
    assert main(["fit", small, "--budget", "much"]) == 2
    assert "expected a size" in capsys.readouterr().err


def test_a_failed_run_ends_with_1_and_says_why(small, capsys, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fnwork.state_file.save", fail)
    assert main(["run", small]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert Archive(Path("experiments")).list()[0].state == "failed"


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a whole console there")
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_ctrl_c_saves_and_stops_with_130_and_the_run_can_be_resumed(small, capsys, name):
    """And so does a terminal that goes away."""
    process, folder = started("run", small, *ENDLESS)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped" in out.splitlines()[-1]
    assert f"fnwork resume {folder.name}" in err and "Traceback" not in err
    assert RunReader(folder).state() == "stopped"
    assert main(["show", folder.name]) == 0
    assert f"go on with: fnwork resume {folder.name}" in capsys.readouterr().out
    assert (folder / "last.safetensors").is_file()
    last, best = ((folder / f"{name}.safetensors").read_bytes() for name in ("last", "best"))
    (folder / "last.safetensors").write_bytes(last[:1000])
    assert main(["show", folder.name]) == 0 and "fnwork resume" not in capsys.readouterr().out
    assert main(["resume", folder.name]) == 2 and "best.safetensors is still there" in capsys.readouterr().err
    (folder / "best.safetensors").write_bytes(best[:1000])
    assert main(["resume", folder.name]) == 2 and "is still there" not in capsys.readouterr().err
    (folder / "last.safetensors").write_bytes(last)
    (folder / "best.safetensors").write_bytes(best)
    process, again = started("resume", folder.name)
    assert again == folder
    assert main(["stop", folder.name]) == 0
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and " 0 B" not in out
    steps = [event["step"] for event in RunReader(folder).events() if event["kind"] == "step"]
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a whole console there")
def test_ctrl_c_twice_ends_at_once_and_the_archive_stays_whole(small):
    process, folder = started("run", small, *ENDLESS)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "the last checkpoint is lost" in err or RunReader(folder).state() == "stopped"
    assert RunReader(folder).state() in ("stopped", "interrupted")
    assert Archive(Path("experiments")).list()[0].problem == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe's reader going away has no signal on Windows")
def test_a_run_whose_reader_went_away_trains_on(small):
    command = [sys.executable, "-m", "fnwork", "run", small]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
    os.close(writing)
    [run] = Archive(Path("experiments")).list()
    assert (result.returncode, result.stderr, run.state, run.epoch) == (0, "", "finished", 4)


def test_a_second_process_reads_and_stops_but_does_not_take_over(small, capsys):
    process, folder = started("run", small, *ENDLESS)
    assert [run["state"] for run in json_of(capsys, "runs")] == ["running"]
    for arguments in (["resume", "last"], ["rm", "last", "-y"]):
        assert main(arguments) == 2
    assert str(process.pid) in capsys.readouterr().err
    assert main(["show", "last"]) == 0
    assert main(["run", small, "--set", "train.epochs=1"]) == 0
    assert main(["stop", folder.name]) == 0
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert sorted(run["state"] for run in json_of(capsys, "runs")) == ["finished", "stopped"]


def test_predict_and_export_of_a_table_need_no_data_set(small, spec_path, capsys):
    assert main(["run", small]) == 0
    (spec_path.parent / "small.csv").unlink()
    Path("new.csv").write_text("c,a,b\n2,2,2\n-2,-2,-2\n")
    rows = json_of(capsys, "predict", "last", "new.csv")
    assert [row["class"] for row in rows] == ["warm", "cold"]
    assert [row["input"] for row in rows] == ["new.csv:2", "new.csv:3"]
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)
    assert rows[0]["probability"] == max(rows[0]["probabilities"].values())
    assert main(["predict", "last", "new.csv"]) == 0
    assert "warm" in capsys.readouterr().out
    Path("new.csv").write_text("a,b\n1,2\n")
    assert main(["predict", "last", "new.csv"]) == 2
    assert '"c"' in capsys.readouterr().err
    assert main(["predict", "last", "gone.csv"]) == 2
    assert main(["export", "last", "--to", "safetensors", "-o", "model.safetensors"]) == 0
    exported = load_file("model.safetensors")
    assert sorted(array.shape for array in exported.values()) == [(2,), (2, 8), (8,), (8, 3)]
    assert main(["export", "last", "--to", "csv", "-o", "curves.csv"]) == 0
    assert len(Path("curves.csv").read_text().splitlines()) == 1 + 32 + 4


def test_test_of_a_run_without_a_test_part_says_so(small, capsys):
    assert main(["run", small, "--set", "train.epochs=1"]) == 0
    assert main(["test", "last"]) == 2
    assert "has no test part" in capsys.readouterr().err


def test_predict_of_a_regression_is_in_real_units(spec_path, capsys):
    rows = np.random.default_rng(1).normal(size=(200, 2))
    lines = [f"{a:.4f},{b:.4f},{5000 + 300 * a - 200 * b:.3f}" for a, b in rows]
    (spec_path.parent / "price.csv").write_text("a,b,price\n" + "\n".join(lines) + "\n")
    Path("price.toml").write_text(
        '[data]\ndataset = "csv"\npath = "experiments/specs/price.csv"\ntarget = "price"\ntask = "regression"\n'
        '[[model.layers]]\ntype = "linear"\n[train]\nepochs = 40\nmicro_batch = 16\nlr = 0.03\n'
    )
    assert main(["run", "price.toml"]) == 0
    assert json_of(capsys, "runs")[0]["val_r2"] > 0.99
    Path("new.csv").write_text("a,b\n1,0\n0,1\n")
    values = [row["value"] for row in json_of(capsys, "predict", "last", "new.csv")]
    assert values == pytest.approx([5300, 4800], abs=30)
    assert main(["predict", "last", "new.csv"]) == 0
    assert "price" in capsys.readouterr().out


def test_test_and_predict_of_pictures(capsys):
    Path("images.toml").write_text(IMAGES)
    run = json_of(capsys, "run", "images.toml")
    tested = json_of(capsys, "test", "last")
    assert {key: tested[key] for key in ("test_loss", "test_accuracy")} == pytest.approx(
        {key: run[key] for key in ("test_loss", "test_accuracy")}
    )
    grey = np.zeros((28, 28), np.uint8)
    grey[4:24, 8:20] = 200
    picture = Image.fromarray(grey)
    picture.save("plain.png")
    picture.resize((90, 60)).convert("RGBA").save("large.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save("deep.png")
    picture.convert("P").save("palette.gif")
    Image.new("L", (1, 1)).save("dot.png")
    Path("broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    names = ["plain.png", "large.png", "deep.png", "palette.gif", "dot.png"]
    rows = {row["input"]: row for row in json_of(capsys, "predict", "last", *names)}
    assert list(rows) == names
    assert rows["deep.png"]["probabilities"] == pytest.approx(rows["plain.png"]["probabilities"])
    assert rows["palette.gif"]["class"] == rows["plain.png"]["class"]
    for wrong in (["broken.png"], ["gone.png"], ["images.toml"]):
        assert main(["predict", "last", *wrong]) == 2
        captured = capsys.readouterr()
        assert captured.err.count(wrong[-1]) == 1 and captured.out == ""
    assert main(["predict", "last", "broken.png", "plain.png", "gone.png", "--json"]) == 2
    captured = capsys.readouterr()
    assert [row["input"] for row in json.loads(captured.out)] == ["plain.png"]
    assert "broken.png: " in captured.err and "gone.png: there is no such file" in captured.err


def test_class_names_of_others_are_shown_harmlessly(spec_path, capsys):
    classes = ["x\x1b[2J", "[red]"]
    lines = [f"{number},{number % 7},{classes[number > 50]}" for number in range(100)]
    (spec_path.parent / "small.csv").write_text("a\x1b[1m,b,kind\n" + "\n".join(lines) + "\n")
    assert main(["run", "small", "--set", "train.epochs=1"]) == 0
    Path("new.csv").write_text("a\x1b[1m,b\n1,2\n90,2\n")
    for arguments in (["predict", "last", "new.csv"], ["data", "info", "small"], ["show", "last"]):
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert "\x1b" not in captured.out + captured.err
