"""One run: spec -> engine -> events -> archive, with start, pause, stop and resume.

`Run.start` and `Run.resume` check everything and make or take over the run's folder; `execute` trains. Whoever wants to
watch reads the folder, or passes a function that is called with every event.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.data import DataSet
from engine.errors import InputError, RunError
from engine.events import Event
from engine.trainer import Trainer
from fnwork import checkpoint, datasets, prepare
from fnwork import spec as specs
from fnwork.archive import Archive
from fnwork.checklist import SYMPTOMS, Checklist
from fnwork.checkpoint import Context
from fnwork.datasets import Progress, silent
from fnwork.datasets.data_info import data_info
from fnwork.files import reason
from fnwork.prepare import data_settings, layers, trainer_settings
from fnwork.run_folder import BEST, LAST, RECORD, SPEC, RunReader, RunWriter
from fnwork.spec import Spec
from fnwork.spec_set import blaming
from fnwork.text import harmless

__all__ = ["Result", "Run", "data_settings", "layers", "trainer_settings"]

_LAST_SECONDS = 60.0
_LOOK_SECONDS = 0.25
_BEAT_SECONDS = 1.0
_RESUMABLE = ("stopped", "interrupted", "failed")
_PARTS = ("train_", "val_", "test_")
_SYMPTOMS = {symptom.key: symptom for symptom in SYMPTOMS}


@dataclass(frozen=True)
class Result:
    """How a run ended: one of the ended states, why, and the metrics of the best epoch and the test part."""

    state: str
    message: str
    results: dict[str, float]
    folder: Path
    seconds: float
    best_epoch: int | None = None


class Run:
    """One run that this process owns. `pause`, `proceed` and `stop` may be called from any thread."""

    def __init__(self, writer: RunWriter, trainer: Trainer, data_set: DataSet, tables: list[dict], at: Context | None):
        self._writer = writer
        self._trainer = trainer
        self._data = data_set
        self._tables = tables
        self._at = at  # the checkpoint this run goes on from
        self._checklist = Checklist()
        self._listen: Callable[[dict[str, Any]], None] = lambda event: None
        self._began = time.monotonic()
        self._epoch, self._step = (at.epoch, at.step) if at else (0, 0)
        self._epochs_done = 0
        self._best: dict[str, Any] = dict(at.best) if at else {}
        self._saved = time.monotonic()
        self._fault: Exception | None = None
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._ended = threading.Event()
        self._end_state = ""

    # --- making one ---

    @classmethod
    def start(
        cls,
        archive: Archive,
        source: Path | tuple[Spec, str, Path],
        settings: Sequence[str] = (),
        label: str = "",
        progress: Progress = silent,
    ) -> "Run":
        """A new run of a spec file, or of (spec, its text, the folder that relative paths start at).

        `settings` change a file's spec and are like "train.epochs=3"; `label` is how the archive names the spec;
        `progress` is told how far the data are read. Raises InputError before anything is made when the spec, its data
        or the machine do not allow the run.
        """
        if isinstance(source, Path):
            spec, text = specs.read(source, settings)
            base, label = source.parent, label or str(source)
        else:
            spec, text, base = source
        where = label or spec.name
        with blaming(source, settings) if isinstance(source, Path) else nullcontext():
            data_set = prepare.load(spec, text, where, base, progress)
            prepare.check(spec, text, where, base, data_info(data_set))
            trainer = prepare.trainer(spec, text, where, data_set)
        resolved = prepare.account(spec, data_settings(spec, base), data_set, trainer.device)
        writer = archive.create(
            spec.name,
            text,
            resolved,
            spec=where,
            notes=spec.notes,
            tags=spec.tags,
            epochs=spec.train.epochs,
        )
        return cls(writer, trainer, data_set, layers(spec), None)

    @classmethod
    def resume(cls, archive: Archive, folder: Path, progress: Progress = silent) -> "Run":
        """Go on with a stopped, failed or interrupted run in its own folder, exactly from its last checkpoint."""
        reader = RunReader(folder)
        name = harmless(folder.name)
        state = reader.state()
        if state in ("finished", "early-stopped"):
            raise InputError(f"{name} is {state}: there is nothing left to train")
        if state not in _RESUMABLE:
            raise InputError(f"{name} is {state} in process {reader.status().get('pid')}; it needs no resume")
        if not (folder / LAST).is_file():
            raise InputError(f"{name} has no {LAST}, so it cannot go on: start it anew{_left(folder)}")
        resolved = reader.resolved()
        spec = prepare.spec_of(resolved, str(folder / "resolved.toml"))
        try:
            kept, at = checkpoint.load(folder / LAST)
        except InputError as error:
            raise InputError(f"{error}{_left(folder)}") from error
        wanted = data_settings(spec, folder)
        data_set = datasets.load(wanted, spec.seed, progress)
        if data_set.fingerprint != resolved.get(prepare.USED, {}).get("data_fingerprint"):
            where = f" in {harmless(wanted.path)}" if wanted.path else ""
            raise InputError(
                f"{name}: the data{where} changed since the run began, so it cannot go on exactly: "
                "bring them back, or start a new run"
            )
        trainer = prepare.trainer(spec, reader.spec_text(), name, data_set)
        trainer.load_state(kept)
        missing = {
            "name": spec.name,
            "started": (folder / SPEC).stat().st_mtime,
            "epochs": spec.train.epochs,
            "notes": spec.notes,
            "tags": [*spec.tags],
        }
        writer = RunWriter.own(folder, missing)
        return cls(writer, trainer, data_set, layers(spec), at)

    # --- requests, from any thread ---

    @property
    def folder(self) -> Path:
        return self._writer.folder

    @property
    def state(self) -> str:
        """ "running", "paused", "stopping", or one of the ended states."""
        if self._end_state:
            return self._end_state
        if self._stopping.is_set():
            return "stopping"
        return "running" if self._going.is_set() else "paused"

    def pause(self) -> None:
        """Ask to wait after the update that is being computed."""
        self._going.clear()

    def proceed(self) -> None:
        """Go on after a pause."""
        self._going.set()

    def stop(self) -> None:
        """Ask to save and stop, within one micro-batch; a paused run stops too."""
        self._stopping.set()
        self._trainer.stop()
        self._going.set()

    # --- training ---

    def execute(self, on_event: Callable[[dict[str, Any]], None] | None = None) -> Result:
        """Train to the end and return how it ended. What users, files and machines cause is told in the result."""
        self._listen = on_event or self._listen
        heartbeat = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        state, message = "failed", ""
        try:
            self._begin()
            heartbeat.start()
            state, message = self._train()
        except OSError as error:
            message = self._cannot_write(error)
        except (RunError, InputError) as error:
            message = str(error)
        except MemoryError:
            message = "the machine has no memory left; a smaller train.micro_batch needs less"
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._ended.set()
            if heartbeat.is_alive():
                heartbeat.join()
            state, message = self._conclude(state, message)
        return Result(state, message, self._results(), self.folder, self._clock(), self._best.get("epoch"))

    def _begin(self) -> None:
        self._writer.taken_request()  # one that was left for an earlier owner
        self._began = time.monotonic() - (self._at.t if self._at else 0.0)
        self._writer.status(state="running", message="")
        if self._at:
            (self.folder / RECORD).unlink(missing_ok=True)
            resume = {"kind": "resume", "t": self._at.t, "epoch": self._epoch, "step": self._step}
            self._writer.event(resume)
            self._listen(resume)
            for event in RunReader(self.folder).events():
                if event["kind"] == "epoch":
                    self._epochs_done = event["epoch"]
                self._checklist.update(event)

    def _train(self) -> tuple[str, str]:
        """The state reached, and why."""
        end: Mapping[str, Any] = {}
        with closing(self._trainer.run()) as events:
            for event in events:
                if event.kind == "end":
                    end = event.values
                elif event.kind == "start" and self._at:
                    self._listen({**event.line(), "t": self._at.t})  # the folder has it from the first time
                else:
                    self._take(event)
                if self._fault:
                    raise self._fault
                self._wait_while_paused()
        if end["reason"] != "failed":
            self._save(LAST)
        if end["reason"] in ("finished", "early-stopped"):
            self._test()
        return end["reason"], end["message"]

    def _take(self, event: Event) -> None:
        values = event.values
        self._epoch, self._step = values.get("epoch", self._epoch), values.get("step", self._step)
        self._tell({"kind": event.kind, "t": self._clock(), **values})
        if event.kind == "start":
            for note in (*self._data.notes, *prepare.cautions(self._trainer)):
                self._tell({"kind": "warning", "t": self._clock(), "message": note})
        elif event.kind == "epoch":
            self._epochs_done = self._epoch
            if values["best"]:
                self._best = {"epoch": self._epoch} | {
                    key: value for key, value in values.items() if key.startswith(_PARTS)
                }
                self._save(BEST)
            self._save(LAST)
            self._writer.status(**self._figures())
        elif event.kind == "step" and time.monotonic() - self._saved >= _LAST_SECONDS:
            self._save(LAST)

    def _tell(self, event: dict[str, Any]) -> None:
        self._writer.event(event)
        self._listen(event)
        for finding in self._checklist.update(event):
            symptom = _SYMPTOMS[finding.symptom]
            check = {"kind": "check", "t": event["t"], **asdict(finding)}
            check |= {"causes": list(symptom.causes), "advice": list(symptom.advice)}
            self._writer.event(check)
            self._listen(check)

    def _save(self, name: str) -> None:
        at = Context(
            t=self._clock(),
            epoch=self._epoch,
            step=self._step,
            best=self._best,
            layers=self._tables,
        )
        self._writer.flush()  # what is on the disk never lags behind its checkpoint
        checkpoint.save(self.folder / name, self._trainer.state(), at)
        self._tell({"kind": "checkpoint", "t": at.t, "file": name.split(".")[0], "epoch": at.epoch, "step": at.step})
        if name == LAST:
            self._saved = time.monotonic()

    def _test(self) -> None:
        """The best weights take the place of the last ones, and are tested where the data has a test part."""
        if (self.folder / BEST).is_file():
            self._trainer.load_weights(checkpoint.load(self.folder / BEST)[0].arrays)
        if self._data.test is not None:
            self._best |= self._trainer.evaluate("test")

    def _wait_while_paused(self) -> None:
        if self._going.is_set():
            return
        began = time.monotonic()
        self._writer.status(state="paused")
        while not (self._going.wait(_LOOK_SECONDS) or self._stopping.is_set()):
            pass
        self._began += time.monotonic() - began  # the run's clock stands still meanwhile
        self._writer.status(state="running")

    def _results(self) -> dict[str, float]:
        return {key: value for key, value in self._best.items() if key.startswith(_PARTS)}

    def _figures(self) -> dict[str, Any]:
        """What `status.json` tells of the run's progress."""
        return {
            "epoch": self._epochs_done,
            "step": self._step,
            "seconds": self._clock(),
            "peak_bytes": self._trainer.memory.peak.get("total", 0),
            "best": self._best,
            "results": self._results(),
        }

    def _clock(self) -> float:
        return round(time.monotonic() - self._began, 4)

    # --- the heartbeat ---

    def _keep_beating(self) -> None:
        """In a thread of its own: waiting events go to the disk, the heartbeat is renewed, requests are met."""
        beaten = time.monotonic()
        while not self._ended.wait(_LOOK_SECONDS):
            word = self._writer.taken_request()
            if word:
                {"stop": self.stop, "pause": self.pause, "continue": self.proceed}[word]()
            if time.monotonic() - beaten < _BEAT_SECONDS:
                continue
            beaten = time.monotonic()
            try:
                self._writer.beat(epoch=self._epochs_done, step=self._step)
            except Exception as error:  # a thread has nobody to raise to: the training thread raises it
                self._fault = error
                self.stop()
                return

    # --- the end ---

    def _conclude(self, state: str, message: str) -> tuple[str, str]:
        """Write how the run ended and give the folder free; what cannot be written is said in the message."""
        end = {"kind": "end", "t": self._clock(), "reason": state, "best": self._best, "message": message}
        try:
            self._tell(end | {key: value for key, value in self._results().items() if key.startswith("test_")})
        except OSError as error:
            state, message = "failed", message or self._cannot_write(error)
        try:
            self._writer.record(self._record(state, message))
        except OSError as error:
            state, message = "failed", message or self._cannot_write(error)
        self._end_state = state
        with suppress(OSError):  # a status that cannot be replaced names a process that is gone: interrupted
            self._writer.status(state=state, message=message, **self._figures())
        with suppress(OSError):
            self._writer.close()
        return state, message

    def _record(self, state: str, message: str) -> dict[str, Any]:
        status = RunReader(self.folder).status()
        return {
            "id": self.folder.name,
            "name": status.get("name"),
            "reason": state,
            "message": message,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(status.get("started", 0.0))),
            "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seconds": self._clock(),
            "epochs": self._epochs_done,
            "steps": self._step,
            "best_epoch": self._best.get("epoch"),
            "parameters": self._trainer.forecast.parameters,
            "device": self._trainer.device.name,
            "result": self._results(),
            "peak": dict(self._trainer.memory.peak),
            "checklist": [asdict(finding) for finding in self._checklist.findings()],
        }

    def _cannot_write(self, error: OSError) -> str:
        return f"cannot write in {harmless(error.filename or self.folder)}: {reason(error)}"


def _left(folder: Path) -> str:
    """What can still be done with a run that cannot go on."""
    return f"; {BEST} is still there for predict, test and export" if checkpoint.is_whole(folder / BEST) else ""
