"""The workbench's screen: everything that imports Textual.

Three places, each one Textual `Screen` held as a mode of the app (`FnworkApp.MODES`), so that each keeps its own focus,
scroll position and key bindings, and only the one that is looked at is drawn:

    edit  -> screens/edit.py  EditScreen(PlaceScreen)
    live  -> screens/live.py  LiveScreen(PlaceScreen)
    runs  -> screens/runs.py  RunsScreen(PlaceScreen)

A place subclasses `place.PlaceScreen`, names itself (`PLACE = "live"`), yields its widgets from `compose_place()` and
implements `action_<id>` for its rows of the one table of actions in `keys.py`. The top bar and the footer come from
`PlaceScreen`. `self.fnwork` is the app: `archive`, `run_folder` (reactive: the folder that Live shows), `current_run`,
`launch(...)`, `resume(...)`, `show_place(...)`, `open_spec_text(...)`.

Training runs in a thread that the app starts (`training.py`); it never touches a widget. Screens read the run's folder
on timers of their own, and only while they are the screen that is looked at (`self.is_current`).
"""
