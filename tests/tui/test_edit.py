"""Edit, with real keys: the list, the text, its errors, files, and what a text comes to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pilots import FIGURES, GOOD, WRONG, edit, question, sees, shown, until
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Button, Input, OptionList

from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.dialogs import AskName
from fnwork.tui.widgets.spec_outlook import SpecOutlook


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same figures for every right text, without running the engine."""
    monkeypatch.setattr("fnwork.outlook.outlook", lambda text, folder: FIGURES)


async def test_fashion_cnn_is_selected_first(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        assert edit(app).current.name == "fashion-cnn"
        assert edit(app).editor.text == GOOD.replace("mlp", "cnn8")
        await pilot.press("down")
        assert edit(app).editor.text == GOOD


async def test_text_is_highlighted_as_toml(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test():
        assert edit(app).editor.is_syntax_aware
        colours = {
            segment.style.color.name
            for segment in edit(app).editor.render_line(2)
            if segment.text.strip() and segment.style and segment.style.color
        }
        assert len(colours) >= 3  # line number, key, string


async def test_errors_are_marked_at_their_lines_and_reachable(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: len(edit(app).editor.problems) == 3)
        marked = [row for row in range(9) if "✗" in edit(app).editor.render_line(row).text]
        assert marked == [1, 7, 8]
        underlined = [segment.text for segment in edit(app).editor.render_line(1) if segment.style.underline]
        assert "".join(underlined) == '"fashion-mni"'
        await sees(pilot, "2:11")
        await pilot.press("f8")
        assert edit(app).editor.cursor_location == (1, 10)
        await pilot.press("f8")
        await sees(pilot, 'did you mean "epochs"?')
        await pilot.press("f8", "f8")
        assert edit(app).editor.cursor_location == (1, 10)
        await pilot.press("tab", "down", "enter")
        assert edit(app).editor.cursor_location == (7, 0)
        assert app.focused is edit(app).editor
        assert "when the spec is right" in edit(app).query_one(SpecOutlook).message


@pytest.mark.parametrize("height", [24, 15, 12, 9])
async def test_errors_and_notices_do_not_hide_the_line_that_is_typed(experiments: Path, height: int) -> None:
    path = experiments / "specs/fashion-cnn.toml"
    path.write_text(GOOD + "# more\n" * 30, encoding="utf-8")
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, height)) as pilot:
        await pilot.press("e", "ctrl+end")
        await pilot.press("z", "z", "space", "equals_sign", "4", "enter")
        await until(pilot, lambda: len(edit(app).editor.problems) > 0)
        await until(pilot, lambda: cursor_in_view(app), "the cursor's line in view")
        panel = edit(app).query_one("#problems")
        await until(pilot, lambda: panel.size.height > 0, "an error in view")
        assert panel.outer_size.height <= max(2, 0.3 * edit(app).query_one("#text-pane").size.height)
        written_elsewhere(path, "# other\n")
        edit(app).look_at_folder()
        await sees(pilot, "changed on disk")
        await until(pilot, lambda: cursor_in_view(app), "the cursor's line in view")


async def test_a_resize_does_not_pull_the_text_back_to_a_cursor_out_of_view(experiments: Path) -> None:
    (experiments / "specs/fashion-cnn.toml").write_text("# more\n" * 60, encoding="utf-8")
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("e")
        edit(app).editor.scroll_end(animate=False)
        await pilot.pause()
        await pilot.resize_terminal(80, 20)
        await until(pilot, lambda: len(shown(app).splitlines()) == 20)
        assert not cursor_in_view(app)


def cursor_in_view(app: FnworkApp) -> bool:
    """Whether the line that the cursor is on can be seen."""
    editor = edit(app).editor
    row = editor.wrapped_document.location_to_offset(editor.cursor_location).y - editor.scroll_offset.y
    return 0 <= row < editor.size.height


async def test_the_next_error_is_told_as_well(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: len(edit(app).editor.problems) == 3)
        for place in ("2:11", "8:1", "9:6"):
            await pilot.press("f8")
            await sees(pilot, place)


async def test_errors_come_and_go_while_typing(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await until(pilot, lambda: edit(app).query_one(SpecOutlook).outlook is FIGURES)
        await pilot.press("enter", "x", "space", "equals_sign", "1", "enter")
        await until(pilot, lambda: [problem.line for problem in edit(app).editor.problems] == [1])
        assert edit(app).query_one("#problems", OptionList).display
        await pilot.press("up", "ctrl+k", "delete")
        await until(pilot, lambda: not edit(app).editor.problems)
        assert not edit(app).query_one("#problems", OptionList).display
        assert not edit(app).current.modified


async def test_figures_are_shown_beside_the_text(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "254,282")
        for words in ("12.4 MiB", "activations", "58%", "1.0 GiB budget", "1,275"):
            await sees(pilot, words)


async def test_unsaved_text_is_kept_while_another_spec_is_shown(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign", "a", "escape")
        await sees(pilot, "● fashion-cnn")
        await pilot.press("down")
        assert edit(app).current.name == "fashion-mlp"
        await pilot.press("up", "e")
        assert edit(app).editor.text.startswith("#a")
        await pilot.press("ctrl+z")
        assert not edit(app).current.modified
        assert "●" not in shown(app)


async def test_save_writes_the_text_as_it_is(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign", "ctrl+s")
        assert (experiments / "specs/fashion-cnn.toml").read_bytes().startswith(b"## A small network.\n[data]\n")
        assert not edit(app).current.modified


async def test_windows_line_ends_are_no_change_and_survive(experiments: Path) -> None:
    path = experiments / "specs/fashion-cnn.toml"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode())
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "x")
        await pilot.press("backspace")
        assert not edit(app).current.modified
        await pilot.press("number_sign", "ctrl+s")
    assert path.read_bytes() == ("#" + GOOD).replace("\n", "\r\n").encode()


async def test_a_text_that_cannot_be_saved_stays(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fnwork.files.replace", full)
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("e", "number_sign", "ctrl+s")
        await sees(pilot, "No space left on")
        assert edit(app).current.modified


async def test_save_as_refuses_bad_and_taken_names(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign", "f12")
        assert isinstance(app.screen, AskName)
        for name in ("", "../x", "wrong", "A", "a/b", "[red]"):
            app.screen.query_one(Input).value = name
            await pilot.press("enter")
            assert isinstance(app.screen, AskName), name
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await until(pilot, lambda: edit(app).current.name == "mine")
        assert (experiments / "specs/mine.toml").read_text().startswith("##")
        assert not edit(app).documents.modified
    assert {path.name for path in experiments.parent.rglob("*.toml")} == {
        "mine.toml",
        "fashion-cnn.toml",
        "fashion-mlp.toml",
        "wrong.toml",
    }


async def test_new_and_duplicate_begin_unsaved_specs(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("d")
        assert edit(app).current.path.name == "fashion-cnn-2.toml"
        await pilot.press("ctrl+n", "b", "enter")
        await until(pilot, lambda: edit(app).current.name == "b")
        await until(pilot, lambda: edit(app).query_one(SpecOutlook).outlook is FIGURES, "a template without errors")
        assert [document.name for document in edit(app).documents.modified] == ["b", "fashion-cnn-2"]
        assert not (experiments / "specs/b.toml").exists()


async def test_revert_asks(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "x", "escape", "u")
        await until(pilot, lambda: question(app) == "Discard changes of fashion-cnn?")
        await pilot.press("escape")
        assert edit(app).current.modified
        await pilot.press("u")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("d")
        await until(pilot, lambda: not edit(app).current.modified)
        assert edit(app).editor.text == GOOD.replace("mlp", "cnn8")


async def test_delete_asks(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("delete")
        await until(pilot, lambda: question(app) == "Delete fashion-cnn.toml?")
        await pilot.press("c")
        await until(pilot, lambda: question(app) == "")
        assert (experiments / "specs/fashion-cnn.toml").exists()
        await pilot.press("delete")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("d")
        await until(pilot, lambda: edit(app).current.name == "fashion-mlp")
        assert not (experiments / "specs/fashion-cnn.toml").exists()


async def test_what_takes_the_place_of_a_spec_that_goes_is_its_neighbour(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("down", "d", "e")
        assert edit(app).current.name == "fashion-mlp-2"
        await pilot.press("f1", "escape")
        edit(app).action_revert()
        await until(pilot, lambda: question(app) != "")
        await pilot.press("d")
        await until(pilot, lambda: edit(app).current.name == "wrong")
        assert app.focused is edit(app).specs
        await pilot.press("delete")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("d")
        await until(pilot, lambda: edit(app).current.name == "fashion-mlp")


async def test_enter_and_space_lose_nothing_in_a_question(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        for key in ("enter", "space"):
            await pilot.press("delete")
            await until(pilot, lambda: isinstance(app.focused, Button))
            await pilot.press(key)
            await until(pilot, lambda: question(app) == "")
        assert (experiments / "specs/fashion-cnn.toml").exists()


async def test_a_duplicate_has_a_name_of_its_own_and_stands_below(experiments: Path) -> None:
    text = 'name = "fashion-mlp"  # kept\n' + GOOD
    (experiments / "specs/fashion-mlp.toml").write_text(text)
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("down", "d")
        assert edit(app).editor.text == text.replace('"fashion-mlp"', '"fashion-mlp-2"')
        names = [document.name for document in edit(app).documents]
        assert names == ["fashion-cnn", "fashion-mlp", "fashion-mlp-2", "wrong"]


def written_elsewhere(path: Path, text: str) -> None:
    """Another program writes the file (with another modification time, however coarse the clock)."""
    before = path.stat().st_mtime_ns
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


async def test_a_file_changed_on_disk_is_read_again(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        written_elsewhere(experiments / "specs/fashion-cnn.toml", "# other\n")
        edit(app).look_at_folder()
        await pilot.pause()
        assert edit(app).editor.text == "# other\n"
        await sees(pilot, "changed on disk and read again")
        await pilot.press("e", "x", "backspace")
        assert "read again" not in shown(app)
        (experiments / "specs/fashion-mlp.toml").unlink()
        written_elsewhere(experiments / "specs/wrong.toml", GOOD)
        (experiments / "specs/added.toml").write_text(GOOD)
        edit(app).look_at_folder()
        await pilot.pause()
        assert [document.name for document in edit(app).documents] == ["added", "fashion-cnn", "wrong"]
        assert edit(app).current.name == "fashion-cnn"


async def test_a_file_changed_on_disk_does_not_take_unsaved_text(experiments: Path) -> None:
    path = experiments / "specs/fashion-cnn.toml"
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign")
        written_elsewhere(path, "# other\n")
        edit(app).look_at_folder()
        await pilot.pause()
        assert edit(app).editor.text.startswith("##")
        await sees(pilot, "changed on disk")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: question(app) == "Changed on disk")
        await pilot.press("escape")
        assert path.read_text() == "# other\n"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("m")
        await until(pilot, lambda: path.read_text().startswith("##"))


async def test_a_file_deleted_elsewhere_keeps_unsaved_text(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign")
        (experiments / "specs/fashion-cnn.toml").unlink()
        edit(app).look_at_folder()
        assert edit(app).current.name == "fashion-cnn"
        await pilot.press("ctrl+s")
        assert (experiments / "specs/fashion-cnn.toml").read_text().startswith("##")


async def test_files_that_are_no_text_are_shown_as_such(experiments: Path) -> None:
    (experiments / "specs/a-binary.toml").write_bytes(b"\xff\xfe\x00")
    (experiments / "specs/b-large.toml").write_bytes(b"#" * (2 << 20))
    (experiments / "specs/c-folder.toml").mkdir()
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("home")
        await pilot.pause()
        await sees(pilot, "not UTF-8")
        await pilot.press("f5", "e", "x", "ctrl+s", "d")
        await pilot.press("home", "down")
        await pilot.pause()
        await sees(pilot, "larger than 1 MiB")
        assert not edit(app).documents.modified


async def test_foreign_text_is_never_interpreted(experiments: Path) -> None:
    name = "[red]evil.toml"
    text = 'notes = "\x1b[2J\x1b]0;owned\x07 [bold]x[/bold] \u202e"\n'
    (experiments / "specs" / name).write_text(text, encoding="utf-8")
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("home")
        await until(pilot, lambda: len(edit(app).editor.problems) > 0)
        await sees(pilot, "[red]evil")
        await sees(pilot, "␛[2J␛]0;owned␇ [bold]x[/bold]")
        for sign in "\x1b\x07\u202e":
            assert sign not in shown(app)
        await pilot.press("u", "delete")
        await until(pilot, lambda: question(app) == "Delete [red]evil.toml?")
        await sees(pilot, "Delete [red]evil.toml?")


async def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    app = FnworkApp(tmp_path)
    async with app.run_test() as pilot:
        await pilot.pause()
        await sees(pilot, "n begins a new one")
        await pilot.press("f5", "ctrl+s", "e", "d", "f12", "delete", "u", "f8")
        await pilot.press("escape", "n", "a", "enter")
        await until(pilot, lambda: edit(app).current is not None)
        await pilot.press("ctrl+s")
        assert (tmp_path / "specs/a.toml").exists()


async def test_resizing_to_almost_nothing_and_back(experiments: Path) -> None:
    (experiments / "specs/fashion-cnn.toml").write_text(WRONG)
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        for size in ((20, 5), (1, 1), (300, 4), (160, 50), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("tab", "down", "x", "question_mark", "escape")
        await sees(pilot, "fashion-cnn")


async def test_lines_that_are_kept_look_as_if_drawn_anew(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        editor = edit(app).editor
        for keys_pressed in (("e",), ('"', '"', '"'), ("enter",), ("down", "shift+down", "x"), ("ctrl+z",)):
            await pilot.press(*keys_pressed)
            kept = [editor.render_line(y) for y in range(editor.size.height)]
            editor.notify_style_update()
            assert kept == [editor.render_line(y) for y in range(editor.size.height)], keys_pressed


async def burst(pilot: Pilot[None], *keys_pressed: str) -> None:
    """Keys as a slow line delivers them: all at once, before any is acted on."""
    for key in keys_pressed:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))
    await pilot.pause()


@pytest.mark.parametrize(
    ("keys_pressed", "text"),
    [
        (("a", "b", "x", "backspace", "c"), "abc"),
        (("a", "enter", "up", "home", "b", "down", "c"), "ba\nc"),
        (("a", "b", "home", "ctrl+k", "c", "enter", "d"), "c\nd"),
        (("a", "enter", "b", "ctrl+home", "c", "ctrl+end", "d"), "ca\nbd"),
    ],
)
async def test_keys_act_in_their_order_however_quick(
    experiments: Path, keys_pressed: tuple[str, ...], text: str
) -> None:
    (experiments / "specs/fashion-cnn.toml").write_text("")
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e")
        await burst(pilot, *keys_pressed)
        await until(pilot, lambda: edit(app).editor.text == text, text)


@pytest.mark.parametrize("key", ["enter", "e"])
@pytest.mark.parametrize("moves", [(), ("down", "down", "up"), ("end", "up")])
async def test_keys_after_enter_in_the_list_go_to_the_text_however_quick(
    experiments: Path, moves: tuple[str, ...], key: str
) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await burst(pilot, *moves, key, "d", "n", "u", "home", "x")
        name, text = ("fashion-mlp", GOOD) if moves else ("fashion-cnn", GOOD.replace("mlp", "cnn8"))
        await until(pilot, lambda: edit(app).editor.text == f"xdnu{text}", "the text with what was typed")
        assert edit(app).current.name == name and question(app) == ""
        assert [document.name for document in edit(app).documents.modified] == [name]


async def test_lines_that_are_kept_are_wrapped_anew_on_a_resize(experiments: Path) -> None:
    (experiments / "specs/fashion-cnn.toml").write_text("notes = 'one two three four five six seven eight nine'\n" * 8)
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        editor = edit(app).editor
        for size in ((60, 20), (120, 40), (45, 20), (120, 40)):
            await pilot.resize_terminal(*size)
            kept = [editor.render_line(y) for y in range(editor.size.height)]
            editor.notify_style_update()
            assert kept == [editor.render_line(y) for y in range(editor.size.height)], size


async def test_training_a_wrong_spec_says_so_and_hides_no_error(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 40), notifications=True) as pilot:
        await pilot.press("end", "f5")
        await sees(pilot, "3 errors: nothing was started", "8:1", "9:6")


async def test_an_unsaved_text_says_what_training_makes_of_it(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign")
        await sees(pilot, "the run keeps a copy")
        await pilot.press("backspace")
        assert "the run keeps a copy" not in shown(app)


@pytest.mark.parametrize(
    ("size", "seen", "lines_of_text"),
    [
        ((60, 20), ("fashion-cnn", "wrong", "254,282", "1% of 1.0 GiB budget"), 9),
        ((80, 15), ("fashion-cnn", "wrong", "254,282", "12.4 MiB"), 9),
        ((80, 12), ("fashion-cnn", "wrong"), 8),
        ((20, 5), ("fashion-cnn",), 2),
    ],
)
async def test_small_screens_show_the_text_above_all(
    experiments: Path, size: tuple[int, int], seen: tuple[str, ...], lines_of_text: int
) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "# A small", *seen)
        assert edit(app).editor.size.height >= lines_of_text
