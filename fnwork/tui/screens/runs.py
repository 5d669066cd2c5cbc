"""Runs: all archived runs, to be sorted, filtered, opened, compared and launched again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from engine.errors import InputError
from fnwork.archive import RunSummary, spec_values
from fnwork.run_folder import ALIVE_STATES
from fnwork.text import harmless
from fnwork.tui import keys
from fnwork.tui.figures import figure
from fnwork.tui.place import PlaceScreen
from fnwork.tui.relaunch import open_copy
from fnwork.tui.screens.dialogs import Ask, AskName, Choice
from fnwork.tui.theme import STATE_MARKS, colour
from fnwork.tui.widgets.run_table import BY_START, COLUMNS, RunTable
from fnwork.where import Where, parse

RELOAD_SECONDS = 2.0
_SIGNS = "<>=~"
"""One of these is in every comparison."""
RESUMABLE = ("stopped", "interrupted", "failed")
_OF_A_RUN = ("open", "mark", "relaunch", "watch", "note", "tag", "delete")
_NO_RUNS = "No run yet. F2 goes to the specs; train one and it is kept here."


class RunsScreen(PlaceScreen):
    """The place where runs are found again."""

    PLACE = "runs"
    CSS_PATH = "runs.tcss"
    BINDINGS = keys.bindings("runs")

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[RunSummary] = []
        self.marked: dict[str, RunSummary] = {}
        """The runs marked for comparison, in the order in which they were marked."""
        self._sorted_by, self._falling = BY_START, True
        self._words: Sequence[str] = ()
        self._where: Where | None = None
        """What is typed into the filter, where it is a comparison as `fnwork runs --where` takes it."""
        self._why_not = ""
        """Why it is none, where it has the signs of one."""
        self._of_specs: dict[str, Mapping[str, Any]] = {}
        """Keys and values of the runs' specs, where a comparison has asked for them."""
        self._loaded = False
        self._may = False
        self._wake = asyncio.Event()

    def compose_place(self) -> Iterable[Widget]:
        with Horizontal(id="filter"):
            yield Label("Filter: ")
            yield FilterInput(
                placeholder="words of name, state, tags, notes or spec; or val_accuracy>0.9", compact=True
            )
        yield RunTable()
        yield Static(id="count", markup=False)
        yield Static(id="about", markup=False)

    def on_mount(self) -> None:
        self.table.focus()
        self.run_worker(self._follow(), group="follow")

    def on_screen_resume(self) -> None:
        self._wake.set()

    @property
    def table(self) -> RunTable:
        """The table."""
        return self.query_one(RunTable)

    async def _follow(self) -> None:
        while True:
            if self.is_current:
                await self._load()
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), RELOAD_SECONDS)
            except TimeoutError:
                continue

    async def _load(self) -> None:
        try:
            runs = await asyncio.to_thread(self.fnwork.archive.list)
        except InputError as error:
            self.query_one("#about", Static).update(str(error))
            return
        if runs != self.runs or not self._loaded:
            self.runs, self._loaded = runs, True
            known = {run.id: run for run in runs}
            self.marked = {run_id: known[run_id] for run_id in self.marked if run_id in known}
            self._show()

    def _show(self) -> None:
        column = COLUMNS[self._sorted_by]
        shown = [run for run in self.runs if _holds(run, self._words) or self._fulfils(run)]
        told = [run for run in shown if column.value(run) is not None]
        told.sort(key=column.value, reverse=self._falling)
        told += [run for run in shown if column.value(run) is None]
        self.table.show(told, set(self.marked), self._sorted_by, self._falling)
        self._show_count(len(told))
        self._show_current()
        may = bool(told)
        if may != self._may:
            self._may = may
            self.refresh_bindings()  # builds the footer anew, which is slow

    def _show_count(self, shown: int) -> None:
        of = "" if shown == len(self.runs) else f"{shown:,} of "
        runs = "run" if len(self.runs) == 1 else "runs"
        parts = [f"{of}{len(self.runs):,} {runs}", f"by {COLUMNS[self._sorted_by].title.lower()}"]
        if self.marked:
            parts.append(f"{len(self.marked)} marked")
        self.query_one("#count", Static).update("   ".join(parts))

    @on(RunTable.Moved)
    def _show_current(self) -> None:
        run, about = self.table.current, self.query_one("#about", Static)
        if run is None:
            about.update(self._none_held() if self.runs else _NO_RUNS if self._loaded else "")
        else:
            about.update(self._about(run))

    def _none_held(self) -> str:
        if self._where is not None:
            return "No run holds this comparison (see `fnwork runs --where` for its keys), nor these words."
        why_not = f" As a comparison: {self._why_not}." if self._why_not else ""
        return f"No run holds these words.{why_not}"

    def _fulfils(self, run: RunSummary) -> bool:
        where = self._where
        if where is None:
            return False
        values = run.as_dict()
        if not values.keys() >= set(where.keys):
            if run.id not in self._of_specs:
                self._of_specs[run.id] = spec_values(run)
            values = {**self._of_specs[run.id], **values}
        return where.test(values)

    def _about(self, run: RunSummary) -> Text:
        """Three lines on one run: which it is, what came out, and what was written on it."""
        muted = colour(self.app, "foreground-muted")
        mark, paint = STATE_MARKS.get(run.state, ("·", "foreground"))
        results = _results(run.results)
        ended = f"ended by: {run.message}" if run.state in ("failed", "stopped") and run.message else ""
        said = "  ".join(filter(None, [run.problem, ended * bool(results), _tags(run), run.notes]))
        lines = [
            Text.assemble((f"{mark} ", colour(self.app, paint)), harmless(run.id), (f"  {harmless(run.spec)}", muted)),
            Text(harmless(results or ended) or "no result yet", muted if not results else ""),
            Text(harmless(said), colour(self.app, "error") if run.problem else muted),
        ]
        for line in lines:
            line.truncate(max(1, self.size.width - 2), overflow="ellipsis")
        return Text("\n").join(lines)

    # --- what the person asks for ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run = self.table.current if self.is_mounted and self.query(RunTable) else None
        if action in _OF_A_RUN:
            return run is not None
        return True

    def action_open(self) -> None:
        """The run's record."""
        self._with_current(self._open)

    def _open(self, run: RunSummary) -> None:
        from fnwork.tui.screens.record import RecordScreen  # NumPy and more, which the table does not need

        self.app.push_screen(RecordScreen(run.path))

    @on(RunTable.Opened)
    def _open_clicked(self) -> None:
        self.action_open()

    def action_watch(self) -> None:
        """Show the run in Live."""
        self._with_current(self._watch)

    def _watch(self, run: RunSummary) -> None:
        self.fnwork.run_folder = run.path
        self.fnwork.show_place("live")

    def action_resume(self) -> None:
        """Go on with the run from its last checkpoint."""
        self._with_current(self._resume)

    def _resume(self, run: RunSummary) -> None:
        if run.state in ALIVE_STATES:
            self.notify("This run goes on already; w shows it in Live.", severity="warning")
        elif run.state not in RESUMABLE:
            self.notify(f"This run is {run.state}: there is nothing left to train.", severity="warning")
        elif not self.fnwork.resume(run.path):
            self.notify("A run is going on in this window; stop it first.", severity="warning")

    def action_relaunch(self) -> None:
        """Open a copy of the run's spec in Edit."""
        self._with_current(lambda run: open_copy(self, run.path))

    def action_mark(self) -> None:
        """Mark the run for comparison, or not, and go on to the next."""
        run = self.table.current
        if run is None:
            return
        if self.marked.pop(run.id, None) is None:
            self.marked[run.id] = run
        self._show()
        self.table.cursor += 1

    def action_unmark(self) -> None:
        """Mark no run."""
        self.marked.clear()
        self._show()

    def action_compare(self) -> None:
        """Compare the marked runs."""
        from fnwork.tui.screens.compare import CompareScreen

        if len(self.marked) < 2:
            self.notify("Mark two runs or more with Space first.", severity="warning")
        else:
            self.app.push_screen(CompareScreen([run.path for run in self.marked.values()]))

    def action_sort(self) -> None:
        """Order the table by the next column."""
        self._sort_by((self._sorted_by + 1) % len(COLUMNS))

    def action_columns_right(self) -> None:
        """See the columns to the right."""
        self.table.first_column += 1

    def action_columns_left(self) -> None:
        """See the columns to the left."""
        self.table.first_column -= 1

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._falling = not self._falling
        self._show()

    @on(RunTable.HeadClicked)
    def _sort_by_clicked(self, event: RunTable.HeadClicked) -> None:
        if event.column == self._sorted_by:
            self.action_reverse()
        else:
            self._sort_by(event.column)

    def _sort_by(self, column: int) -> None:
        self._sorted_by = column
        self._falling = COLUMNS[column].title not in ("Name", "State", "Tags", "Notes")
        self._show()

    def action_filter(self) -> None:
        """Type words, or a comparison; only the runs that hold all of them, or for which it holds, stay."""
        self.query_one("#filter").add_class("-shown")
        self.query_one(FilterInput).focus()

    def action_clear_filter(self) -> None:
        """Show all runs again."""
        self.query_one(FilterInput).value = ""
        self.query_one("#filter").remove_class("-shown")
        self.table.focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._words, self._where, self._why_not = event.value.lower().split(), None, ""
        if any(sign in event.value for sign in _SIGNS):
            try:
                self._where = parse(event.value)
            except InputError as error:
                self._why_not = str(error).removeprefix("--where").lstrip(",: ")
        self._show()

    @on(Input.Submitted)
    def _filter_done(self) -> None:
        self.table.focus()
        self.query_one("#filter").set_class(bool(self._words), "-shown")

    @work
    async def action_note(self) -> None:
        """Write a note on the run."""
        run = self.table.current
        if run is not None:
            await self._annotate(run, "Note", "A note on this run", run.notes, self.fnwork.archive.note)

    @work
    async def action_tag(self) -> None:
        """Write the run's tags."""
        run = self.table.current
        if run is not None:
            hint = "The tags of this run, with commas between"
            await self._annotate(run, "Tags", hint, ", ".join(run.tags), self._write_tags)

    def _write_tags(self, run: str, text: str) -> None:
        self.fnwork.archive.retag(run, [tag.strip() for tag in text.split(",") if tag.strip()])

    async def _annotate(
        self, run: RunSummary, title: str, hint: str, value: str, write: Callable[[str, str], None]
    ) -> None:
        text = await self.app.push_screen_wait(AskName(title, f"{hint}: {harmless(run.id)}", value, lambda text: ""))
        if text is not None:
            self._try(lambda: write(run.id, text))

    @work
    async def action_delete(self) -> None:
        """Delete the run, when the answer is yes."""
        run = self.table.current
        if run is None:
            return
        if run.state in ALIVE_STATES:
            self.notify("This run goes on; stop it first (w, then s).", severity="warning")
            return
        choices = [Choice("delete", "d", "Delete", destructive=True), Choice("cancel", "k", "Keep it")]
        text = f"{harmless(run.id)} with its weights, events and record. It cannot be brought back."
        if await self.app.push_screen_wait(Ask("Delete this run?", text, choices)) == "delete":
            self._try(lambda: self.fnwork.archive.delete(run.id))

    def _try(self, change: Callable[[], None]) -> None:
        try:
            change()
        except InputError as error:
            self.notify(str(error), severity="error", markup=False)
        self._wake.set()

    def _with_current(self, do: Callable[[RunSummary], object]) -> None:
        run = self.table.current
        if run is not None:
            do(run)


class FilterInput(Input):
    """The words that are looked for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep the filter"),
        Binding("escape", "screen.clear_filter", "All runs"),
    ]


def _results(results: Mapping[str, float]) -> str:
    """What came out, in the order of its weight: a narrow screen cuts the end off."""
    told = []
    for part in ("val", "test", "train"):
        metrics = [key for key in ("accuracy", "r2", "mae", "loss") if f"{part}_{key}" in results]
        words = [f"{'' if key == 'accuracy' else f'{key} '}{figure(results[f'{part}_{key}'], key)}" for key in metrics]
        told += [" ".join([part, *words])] if words else []
    return "  ".join(told)


def _tags(run: RunSummary) -> str:
    return " ".join(f"#{tag}" for tag in run.tags)


def _holds(run: RunSummary, words: Sequence[str]) -> bool:
    text = " ".join([run.id, run.name, run.state, run.spec, run.notes, *run.tags]).lower()
    return all(word in text for word in words)
