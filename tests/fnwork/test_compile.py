"""Kernels are compiled by processes of their own, once, and said so; without them the reference operations run."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import engine.ops
from engine.data import DataSet, Part, Preprocessing
from engine.device import THREADS, choose, thread_count
from engine.errors import InputError
from engine.ops.cpu.storage import FEATURES
from engine.trainer import Settings, Trainer
from fnwork import compiling
from fnwork.compiling import HOME, PROCESSES, Compilation, compile_part

ROOT = Path(__file__).parents[2]
LAYERS = [{"type": "flatten"}, {"type": "linear"}]
ENDS_AT_ONCE, SLEEPS = "", "import time; time.sleep(60)"


def trainer(**settings) -> Trainer:
    shape = (4, 4, 1)
    part = Part(np.zeros((4, *shape), np.uint8), np.zeros(4, np.int32))
    preprocessing = Preprocessing("classification", shape, ("a", "b"), channel_mean=(0.0,), channel_std=(1.0,))
    data = DataSet("made-up", "classification", part, part, None, shape, ("a", "b"), preprocessing, "")
    return Trainer(LAYERS, data, Settings(micro_batch=2, epochs=1, **settings), "cpu", compilation=Compilation)


@dataclass
class FakeKernel:
    """Lies on disk from the question after `questions` on."""

    questions: float

    @property
    def is_kept(self) -> bool:
        self.questions -= 1
        return self.questions < 0


@pytest.fixture
def compiler(monkeypatch):
    """Stands in for kernels, and for the processes that compile them: notes their commands, which run other code."""

    def faked(kernels, code):
        commands, start = [], subprocess.Popen
        monkeypatch.setattr(compiling, "needed", lambda mode: list(kernels))

        def popen(command, **options):
            if "fnwork.compiling" not in command:  # the name of the processor is asked for in this way
                return start(command, **options)
            commands.append(command[1:])
            return start([sys.executable, "-c", code], **options)

        monkeypatch.setattr("subprocess.Popen", popen)
        return commands

    return faked


def of_kind(events, kind: str) -> list[dict]:
    return [event.values for event in events if event.kind == kind]


def warnings(events) -> list[str]:
    return [event["message"] for event in of_kind(events, "warning")]


def test_a_first_run_tells_how_far_compiling_is(compiler):
    commands = compiler([FakeKernel(2), FakeKernel(2), FakeKernel(4), FakeKernel(6)], "import time; time.sleep(1.5)")
    events = list(trainer(mode="mixed").run())
    assert commands == [["-m", "fnwork.compiling", "mixed", str(part)] for part in range(PROCESSES)]
    told = warnings(events)
    assert told[0].endswith("once: 0% done") and "50% done" in told[1]
    assert len(told) == len(set(told)) and events[-1].values["reason"] == "finished"


@pytest.mark.parametrize("settings", [{}, {"mode": "mixed", "kernels": "cpu"}], ids=["reference", "asked for"])
def test_nothing_is_compiled_where_nothing_has_to_be(compiler, settings):
    commands = compiler([FakeKernel(1)], ENDS_AT_ONCE)
    list(trainer(**settings).run())
    assert not commands


def test_nothing_is_compiled_that_lies_on_disk(compiler):
    commands = compiler([FakeKernel(0)], ENDS_AT_ONCE)
    assert not warnings(trainer(mode="mixed").run())
    assert not commands


def test_compiling_ends_with_a_request_to_stop(compiler):
    compiler([FakeKernel(np.inf)], SLEEPS)
    training = trainer(mode="mixed")
    training.stop()
    assert list(training.run())[-1].values["reason"] == "stopped"


def test_a_compiler_that_fails_leaves_the_reference(compiler):
    whole = list(trainer(mode="mixed", kernels="reference").run())
    compiler([FakeKernel(np.inf)], "import sys; sys.exit('LLVMError: no such target')")
    training = trainer(mode="mixed")
    events = list(training.run())
    assert any("LLVMError: no such target" in message and "reference" in message for message in warnings(events))
    assert training.forecast.kernels == "reference"
    assert training.memory.peak == training.forecast.peak
    assert events[-1].values["reason"] == "finished"
    losses, expected = ([step["loss"] for step in of_kind(side, "step")] for side in (events, whole))
    assert losses == expected


def test_without_processes_the_reference_runs(compiler, monkeypatch):
    compiler([FakeKernel(np.inf)], ENDS_AT_ONCE)
    start = subprocess.Popen

    def popen(command, **options):
        if "fnwork.compiling" in command:
            raise BlockingIOError("Resource temporarily unavailable")
        return start(command, **options)

    monkeypatch.setattr("subprocess.Popen", popen)
    training = trainer(mode="mixed")
    assert list(training.run())[-1].values["reason"] == "finished"
    assert training.forecast.kernels == "reference"


def test_a_damaged_file_of_a_kernel_counts_as_missing(tmp_path):
    code = """
import os
from pathlib import Path
from fnwork import compiling
kernel = compiling.needed("fp32")[0]
kernel.compile()
print(kernel.is_kept)
for index in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi"):
    index.write_bytes(index.read_bytes()[:20])
print(kernel.is_kept)
"""
    assert in_a_process(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["True", "False"]


def test_a_compiler_that_fails_loses_nothing_of_a_resumed_run(compiler):
    compiler([FakeKernel(0)], ENDS_AT_ONCE)
    before = trainer(mode="mixed", kernels="reference")
    next(event for event in before.run() if event.kind == "step")
    compiler([FakeKernel(np.inf)], "raise SystemExit(3)")
    training = trainer(mode="mixed")
    training.load_state(before.state())
    assert [step["step"] for step in of_kind(training.run(), "step")] == [2]


@pytest.mark.parametrize(
    "error", [ImportError("No module named 'numba'"), RuntimeError("cannot cache function: no locator\nat all")]
)
def test_without_numba_the_reference_runs_and_says_why(monkeypatch, error):
    def missing(name):
        raise error

    monkeypatch.setattr(engine.ops, "import_module", missing)
    engine.ops.without_kernels.cache_clear()
    try:
        training = trainer(mode="mixed")
        told = warnings(training.run())
    finally:
        engine.ops.without_kernels.cache_clear()
    assert training.forecast.kernels == "reference"
    assert len(told) == 1 and str(error).splitlines()[0] in told[0] and "\n" not in told[0]


def in_a_process(code: str, **variables: str) -> str:
    """What a piece of Python prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_numba_that_is_switched_off_leaves_the_reference():
    code = "from engine.ops import without_kernels; print(without_kernels())"
    assert "NUMBA_DISABLE_JIT" in in_a_process(code, NUMBA_DISABLE_JIT="1")


LEARNS = """
import sys
sys.path.insert(0, "tests/engine")
import numpy as np
from laboratory import learner, window
from engine.ops.cpu import kernels, threads

LAYERS = [
    {"type": "conv", "out": 16}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "conv", "out": 16},
    {"type": "max_pool"}, {"type": "dropout"}, {"type": "residual", "out": 24, "stride": 2},
    {"type": "flatten"}, {"type": "linear"},
]
draws = np.random.default_rng(0)
batch = draws.standard_normal((8, 20, 20, 3)), draws.integers(0, 3, 8)

def gradients(mode):
    learned = learner(LAYERS, (20, 20, 3), kernels="cpu", mode=mode)
    found = window(learned, [batch])[1]
    learned.update(1e-3, learned.inputs[0])
    return found
"""


def test_what_is_compiled_ahead_is_all_that_a_run_calls():
    """Nothing else is compiled on the way, which would hold up everything."""
    code = """
declared = {}
for mode in ("fp32", "mixed"):
    gradients(mode)
    for function, types in kernels.needed(mode):
        declared.setdefault(function, set()).add(types)
for function, types in declared.items():
    print(function.__name__, bool(function.signatures), set(function.signatures) <= types)
"""
    lines = in_a_process(LEARNS + code).splitlines()
    assert len(lines) > 10 and all(line.endswith("True True") for line in lines), lines


def test_the_parts_of_the_compiler_have_all_kernels(monkeypatch):
    compiled = []
    needed = compiling.needed("fp32")
    monkeypatch.setattr(compiling.Kernel, "compile", lambda kernel: compiled.append(kernel))
    for part in range(PROCESSES):
        compile_part("fp32", part)
    assert len(compiled) == len(needed) and {id(each.function) for each in compiled} == {
        id(each.function) for each in needed
    }


def test_threads_are_a_setting_and_change_no_more_than_the_order_of_sums():
    code = """
print(threads.THREADS)
for name, gradient in gradients("fp32").items():
    print(name, *gradient.reshape(-1))
"""
    one, three, again = (in_a_process(LEARNS + code, FNWORK_THREADS=number) for number in "133")
    assert three == again
    assert (one.split()[0], three.split()[0]) == ("1", "3")
    for single, several in zip(one.splitlines()[1:], three.splitlines()[1:], strict=True):
        (name, *values), (other_name, *other_values) = single.split(), several.split()
        assert name == other_name
        np.testing.assert_allclose(np.array(values, float), np.array(other_values, float), rtol=1e-3, atol=1e-5)


@pytest.mark.skipif("+avx512f" not in FEATURES, reason="this processor has narrow vectors only")
def test_narrow_vectors_compute_the_same_as_wide_ones():
    code = """
from engine.ops.cpu import product
print(product.ROWS)
for name, gradient in gradients("fp32").items():
    print(name, gradient.tobytes().hex())
"""
    narrow = ",".join(f"-{name[1:]}" if name.startswith("+avx512") else name for name in sorted(FEATURES))
    found, expected = in_a_process(LEARNS + code, NUMBA_CPU_FEATURES=narrow), in_a_process(LEARNS + code)
    assert found.split()[0] != expected.split()[0] and found.split()[1:] == expected.split()[1:]


def test_threads_follow_the_cores_that_the_process_may_use(monkeypatch):
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {1, 4, 5}, raising=False)
    assert thread_count() == 3
    monkeypatch.setenv(THREADS, " 7 ")
    assert thread_count() == 7


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5", "1000", "\u0663"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(monkeypatch, number):
    monkeypatch.setenv(THREADS, number)
    with pytest.raises(InputError, match=r"FNWORK_THREADS=.*expected a whole number from 1 to 999"):
        choose("cpu")


def test_the_processes_compile_this_copy_whatever_folder_the_user_is_in(tmp_path, monkeypatch):
    """A folder `engine` there would otherwise be taken for ours, and its kernels kept where nobody looks."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    program = "import engine; print(engine.__file__)"
    found = subprocess.run([sys.executable, "-c", program], cwd=HOME, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()) == Path(engine.__file__)
    started = []
    monkeypatch.setattr(compiling, "needed", lambda mode: [FakeKernel(1)])
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(options) or NoProcess())
    with Compilation("fp32"):
        assert [options["cwd"] for options in started] == [HOME] * PROCESSES


class NoProcess:
    """A process that has ended."""

    stderr = io.StringIO()

    def kill(self) -> None: ...

    def wait(self) -> None: ...
