"""runs, show, compare, rm, note, tag: the archive read and annotated."""

from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine.errors import InputError
from fnwork.archive import RunSummary, spec_values, summary
from fnwork.commands.common import (
    archive_of,
    at_a_terminal,
    confirm,
    duration,
    figure,
    print_json,
    print_table,
    run_folder,
    say,
    title,
)
from fnwork.compare import compare as compare_runs
from fnwork.run_folder import LAST, RunReader
from fnwork.text import did_you_mean, first_few, harmless, size

HIGHER_IS_BETTER = ("accuracy", "r2")
_MOST_KEYS = 16  # that a message names


def runs(arguments: Namespace) -> int:
    archive = archive_of(arguments)
    found = archive.list()[::-1]
    if arguments.where is not None:
        found = _filtered(found, arguments.where)
    if arguments.sort is not None:
        found = _sorted(found, arguments.sort)
    if arguments.json:
        print_json([run.as_dict() for run in found])
    elif found:
        _print_runs(found)
    else:
        say(f"no runs in {archive.runs}" + (" for which this holds" if arguments.where else ""))
    return 0


def _print_runs(found: list[RunSummary]) -> None:
    shown = dict.fromkeys(key for run in found for key in run.results if key.startswith(("val_", "test_")))
    rows = [
        [
            run.id,
            run.state + (f" ({run.problem})" if run.problem else ""),
            f"{run.epoch}/{run.epochs}",
            *(figure(key, run.results.get(key)) for key in shown),
            ", ".join(run.tags),
            run.notes.partition("\n")[0][:60],
        ]
        for run in found
    ]
    print_table(["run", "state", "epochs", *shown, "tags", "notes"], rows)


def _filtered(found: list[RunSummary], expression: str) -> list[RunSummary]:
    from fnwork.where import parse

    where = parse(expression)
    values = _values(found, where.keys)
    return [run for run in found if where.test(values[run.id])]


def _sorted(found: list[RunSummary], key: str) -> list[RunSummary]:
    """Best first: accuracies and r2 from high to low, all else from low to high; runs without the key come last."""
    values = _values(found, (key,))

    def rank(run: RunSummary) -> tuple[int, Any]:
        value = values[run.id].get(key)
        if isinstance(value, int | float) and value == value:
            return (0, -value if key.endswith(HIGHER_IS_BETTER) else value)
        return (2, "") if value is None or value != value else (1, figure(key, value))

    return sorted(found, key=rank)


def _values(found: list[RunSummary], keys: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """Each run's keys and values; the specs are only read where a key asks for one of theirs."""
    values = {run.id: run.as_dict() for run in found}
    known = {key for run in values.values() for key in run}
    asked = set(keys) - known
    if asked and found:
        values = {run.id: spec_values(run) | values[run.id] for run in found}
        known = {key for run in values.values() for key in run}
        for key in keys:
            if key not in known:
                telling = [*map(harmless, _telling(found, values))]
                hint = did_you_mean(key, known) or f"; there are: {first_few(telling, _MOST_KEYS)}"
                raise InputError(f'no run has a key "{harmless(key)}"{hint}')
    return values


def _telling(found: list[RunSummary], values: dict[str, Mapping[str, Any]]) -> list[str]:
    """The keys worth naming: results first, then those of every run, then those of specs without their layers."""
    results = dict.fromkeys(key for run in found for key in run.results)
    others = dict.fromkeys(key for run in found for key in [*run.as_dict(), *sorted(values[run.id])])
    return [key for key in results | others if not key.startswith(("model.layers.", "used.", "versions."))]


def show(arguments: Namespace) -> int:
    if (arguments.run is None) == (arguments.spec is None):
        both = ", and not both" if arguments.spec is not None else ""
        raise InputError(f"show: expected a RUN, or --model SPEC for the network of a spec{both}")
    if arguments.spec is not None:
        from fnwork.commands.specs import network

        return network(arguments)
    folder = run_folder(arguments)
    run, record = summary(folder), RunReader(folder).record()
    if arguments.json:
        print_json(document(folder))
        return 0
    reader = RunReader(folder)
    known = reader.resolved()
    facts = {
        "run": run.id,
        "state": run.state,
        "why": run.message,
        "damaged": "; ".join(filter(None, (run.problem, reader.problem))),
        "spec": run.spec,
        "started": _moment(run.started),
        "epochs": f"{run.epoch} of {run.epochs}",
        "tags": ", ".join(run.tags),
        "notes": run.notes,
        "folder": str(run.path),
    }
    for key, value in facts.items():
        if value:
            print(f"{key:<10}{harmless(value)}")
    if run.results:
        _print_section("results", [(key, figure(key, value)) for key, value in run.results.items()])
    if record:
        _print_record(record)
    if run.state in ("stopped", "interrupted") and known:
        from fnwork.checkpoint import is_whole

        if is_whole(folder / LAST):
            print(f"\ngo on with: fnwork resume {harmless(run.id)}")
    return 0


def _moment(seconds: float) -> str:
    """A moment in local time; nothing for one that a damaged file makes up."""
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""


def document(folder: Any) -> dict[str, Any]:
    """A run as `show --json` shows it."""
    return summary(folder).as_dict() | {"record": RunReader(folder).record()}


def _print_section(heading: str, facts: list[tuple[str, str]]) -> None:
    print(f"\n{heading}")
    width = max((len(key) for key, _ in facts), default=0)
    for key, value in facts:
        print(f"  {harmless(key):<{width}}  {harmless(value)}")


def _print_record(record: Mapping[str, Any]) -> None:
    facts = {key: record.get(key) for key in ("best_epoch", "steps", "seconds", "parameters", "device")}
    known = [
        (key, duration(value) if key == "seconds" else f"{value:,}" if isinstance(value, int) else str(value))
        for key, value in facts.items()
        if value is not None
    ]
    _print_section("record", known)
    peak = record.get("peak")
    if isinstance(peak, dict):
        sizes = [(key, size(value)) for key, value in peak.items() if isinstance(value, int)]
        _print_section("peak of memory", sizes)
    checklist = record.get("checklist")
    findings = [entry for entry in checklist if isinstance(entry, dict)] if isinstance(checklist, list) else []
    if findings:
        lines = [(title(entry.get("symptom")), f"{entry.get('state')}: {entry.get('evidence')}") for entry in findings]
        _print_section("checklist", lines)


def compare(arguments: Namespace) -> int:
    archive = archive_of(arguments)
    comparison = compare_runs([archive.find(reference) for reference in [arguments.run, *arguments.others]])
    ids = [run.id for run in comparison.runs]
    tables = {"keys": comparison.keys, "results": comparison.results}
    if arguments.json:
        by_key = {heading: {row.key: list(row.values) for row in rows} for heading, rows in tables.items()}
        print_json({"runs": ids} | by_key)
        return 0
    for place, (heading, rows) in enumerate(tables.items()):
        if place:
            print()
        print_table([heading, *ids], [[row.key, *(figure(row.key, value) for value in row.values)] for row in rows])
        if not rows:
            print("  (no key differs)" if heading == "keys" else "  (none yet)")
    return 0


def remove(arguments: Namespace) -> int:
    folder = run_folder(arguments)
    if not arguments.yes:
        if not at_a_terminal():
            command = f"fnwork rm {harmless(folder.name)} --yes"
            raise InputError(f"there is no terminal to ask in: {command} deletes it for good")
        if not confirm(f"Delete {folder.name} for good?", False):
            say("nothing was deleted")
            return 0
    archive_of(arguments).delete(str(folder))
    say(f"deleted {folder.name}")
    return 0


def note(arguments: Namespace) -> int:
    archive_of(arguments).note(arguments.run, " ".join(arguments.text))
    return 0


def tag(arguments: Namespace) -> int:
    text = arguments.tag.strip()
    if not text or len(text) > 64 or not text.isprintable():
        raise InputError("a tag is one word or a few, of at most 64 characters")
    archive_of(arguments).tag(arguments.run, text)
    return 0
