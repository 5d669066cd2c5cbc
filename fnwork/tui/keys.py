"""The one table of actions: what drives key bindings, the footer, the key help and the command palette.

An action `save` of the place `edit` is the method `action_save` of `EditScreen`; those of
`everywhere` belong to the app.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Place = Literal["edit", "live", "runs"]
Owner = Place | Literal["record", "compare", "everywhere"]
"""What an action belongs to: a place, what a place opens, or the app."""
PLACES: tuple[Place, ...] = ("edit", "live", "runs")


@dataclass(frozen=True)
class Action:
    """One thing a person can do, with its keys."""

    id: str
    keys: str
    label: str
    tooltip: str
    place: Owner
    footer: bool = True
    command: str = ""
    """Its name in the command palette, which looks for words there alone; the label when not set."""
    priority: bool = False
    """Goes before what the focused widget does with the key; never for a key that writes a character."""

    def binding(self, key: str) -> Binding:
        """The binding of one of the keys."""
        return Binding(
            key,
            self.id,
            self.label,
            show=self.footer,
            priority=self.priority,
            tooltip=self.tooltip,
            id=f"{self.place}.{self.id}",
        )


_RELAUNCH = "Edit a copy to relaunch"

ACTIONS: tuple[Action, ...] = (
    Action("place_edit", "f2,1", "Edit", "Go to the specs and their text", "everywhere", footer=False),
    Action("place_live", "f3,2", "Live", "Go to the run that is being watched", "everywhere", footer=False),
    Action("place_runs", "f4,3", "Runs", "Go to the table of all runs", "everywhere", footer=False),
    Action("next_place", "ctrl+t", "Next place", "Edit, Live, Runs in turn", "everywhere", footer=False),
    Action("help", "f1,question_mark", "Help", "All keys of this place", "everywhere"),
    Action("command_palette", "ctrl+p", "Commands", "Find any command by its name", "everywhere", footer=False),
    Action("quit", "ctrl+q", "Quit", "Leave; asks when something would be lost", "everywhere", priority=True),
    # Edit
    Action("launch", "f5,ctrl+r", "Train", "Train this text, saved or not; it is kept", "edit"),
    Action("save", "ctrl+s", "Save", "Write the text to its file", "edit"),
    Action("save_as", "f12,a", "Save as", "Write the text to a file of another name", "edit", footer=False),
    Action("new", "ctrl+n,n", "New", "Begin a new spec from a short template", "edit"),
    Action("duplicate", "d", "Duplicate", "Begin a new spec from a copy of this one", "edit", footer=False),
    Action("next_problem", "f8", "Next error", "Go to the next error in the text", "edit"),
    Action("edit_text", "e", "Edit text", "Go from the list to the text, as Enter does", "edit", footer=False),
    Action("to_list", "escape", "List", "Go from the text to the list", "edit", footer=False),
    Action("undo", "ctrl+z", "Undo", "Take back what was typed last", "edit", footer=False),
    Action("redo", "ctrl+y", "Redo", "Do again what was taken back", "edit", footer=False),
    Action("revert", "u", "Revert", "Give up the unsaved changes; asks first", "edit", footer=False),
    Action("remove", "delete", "Delete", "Delete this spec's file; asks first", "edit", footer=False),
    # Live
    Action("pause", "space,p", "Pause/continue", "Pause the run, or let it continue", "live"),
    Action("stop", "s", "Stop", "Save and stop the run; it can be resumed", "live"),
    Action("resume", "r", "Resume", "Go on with a run that was stopped or interrupted", "live"),
    Action("log_axis", "l", "Log axis", "Loss on a logarithmic axis, or on a linear one", "live"),
    Action("next_chart", "v", "Next chart", "Loss, accuracy, memory, rate in turn; of two, the lower one", "live"),
    Action("checklist", "c", "Checklist", "Go to the checklist: arrows choose, Enter tells numbers and advice", "live"),
    Action("over", "x", "Epochs/time", "Draw over epochs, updates or time", "live", footer=False),
    Action("zoom_in", "plus,equals_sign", "Zoom in", "See less of the x axis, larger", "live", footer=False),
    Action("zoom_out", "minus", "Zoom out", "See more of the x axis", "live", footer=False),
    Action("pan_left", "left", "Earlier", "Move the zoomed charts to the left", "live", footer=False, priority=True),
    Action("pan_right", "right", "Later", "Move the zoomed charts to the right", "live", footer=False, priority=True),
    Action("whole", "0,home", "Whole run", "Undo the zoom", "live", footer=False, priority=True),
    Action(
        "spec", "e", "Edit a copy", "Open a copy of the run's spec in Edit", "live", footer=False, command=_RELAUNCH
    ),
    # Runs
    Action("open", "enter", "Open", "The run's record: result, curves, spec, checklist, events", "runs"),
    Action("mark", "space", "Mark", "Mark the run for comparison", "runs"),
    Action("compare", "c", "Compare", "Compare the marked runs", "runs"),
    Action(
        "relaunch", "e", "Copy", "Open a copy of the run's spec in Edit, to launch it again", "runs", command=_RELAUNCH
    ),
    Action("filter", "slash", "Filter", "Show only the runs that hold some words, or val_accuracy>0.9", "runs"),
    Action("sort", "o", "Sort", "Order the table by the next column", "runs"),
    Action("watch", "w", "Watch", "Show the run in Live", "runs"),
    Action("resume", "r", "Resume", "Go on with a run that was stopped or interrupted", "runs"),
    Action("note", "n", "Note", "Write a note on the run", "runs"),
    Action("tag", "t", "Tags", "Write the run's tags", "runs"),
    Action("delete", "d,delete", "Delete", "Delete the run; asks first", "runs"),
    Action("reverse", "O", "Reverse", "Turn the order of the table round", "runs", footer=False),
    Action("columns_right", "right", "More columns", "See the columns to the right", "runs", footer=False),
    Action("columns_left", "left", "Columns back", "See the columns to the left", "runs", footer=False),
    Action("unmark", "u", "Unmark all", "Mark no run", "runs", footer=False),
    Action("clear_filter", "escape", "All runs", "Undo the filter", "runs", footer=False),
    # One run's record
    Action("back", "escape,backspace", "Back", "Back to the table", "record"),
    Action(
        "relaunch",
        "e",
        "Copy",
        "Open a copy of the run's spec in Edit, to launch it again",
        "record",
        command=_RELAUNCH,
    ),
    Action("watch", "w", "Watch", "Show the run in Live", "record"),
    Action("resume", "r", "Resume", "Go on with a run that was stopped or interrupted", "record"),
    Action("log_axis", "l", "Log axis", "Loss on a logarithmic axis, or on a linear one", "record"),
    Action("over", "x", "Epochs/time", "Draw over epochs, updates or time", "record"),
    # Several runs compared
    Action("back", "escape,backspace", "Back", "Back to the table", "compare"),
    Action("next_chart", "v", "Next curve", "Losses and metrics in turn", "compare"),
    Action("log_axis", "l", "Log axis", "A logarithmic axis, or a linear one", "compare"),
    Action("over", "x", "Epochs/time", "Draw over epochs, updates or time", "compare"),
)


def of_place(place: Owner) -> list[Action]:
    """The actions of one place (or those that work everywhere), in the order of the table."""
    return [action for action in ACTIONS if action.place == place]


def bindings(place: Owner) -> list[BindingType]:
    """The key bindings of one place (or of the app)."""
    return [action.binding(action.keys) for action in of_place(place)]


def each_key(action: Action) -> list[Binding]:
    """One binding for each key of an action, to be shown."""
    return [action.binding(key) for key in action.keys.split(",")]
