"""Which part and which class the files of a folder belong to, and folders that are not as they should be."""

import os
import sys

import pytest

from engine.errors import InputError
from fnwork.datasets import picture_tree
from tests.fnwork.datasets.trees import classes, picture


def refused(folder):
    with pytest.raises(InputError) as error:
        picture_tree.read(folder)
    assert str(error.value).startswith("data.path: ")
    return str(error.value)


def test_class_folders_alone_are_the_train_part(tmp_path):
    tree = picture_tree.read(classes(tmp_path, dogs=3, cats=2))
    assert tree.classes == ("cats", "dogs")
    assert list(tree.parts) == ["train"]
    assert tree.parts["train"].files == ("cats/c0.png", "cats/c1.png", "dogs/c0.png", "dogs/c1.png", "dogs/c2.png")
    assert tree.parts["train"].classes.tolist() == [0, 0, 1, 1, 1]
    assert tree.notes == ()


@pytest.mark.parametrize("validation", ["val", "valid", "validation", "Validation"])
def test_parts_are_known_by_their_names(tmp_path, validation):
    for part in ("train", validation, "test"):
        classes(tmp_path / part, b=2, a=1)
    tree = picture_tree.read(tmp_path)
    assert sorted(tree.parts) == ["test", "train", "validation"]
    assert tree.parts["validation"].folder == tmp_path / validation
    assert all(part.classes.tolist() == [0, 1, 1] for part in tree.parts.values())


def test_classes_are_those_of_train_however_the_others_are_filled(tmp_path):
    classes(tmp_path / "train", a=1, b=1, c=1)
    classes(tmp_path / "test", c=2)
    tree = picture_tree.read(tmp_path)
    assert tree.classes == ("a", "b", "c")
    assert tree.parts["test"].classes.tolist() == [2, 2]


def test_a_class_without_train_pictures_is_refused_by_name(tmp_path):
    classes(tmp_path / "train", cats=1, dogs=1)
    classes(tmp_path / "val", Cats=1)
    assert f'{tmp_path / "val"} has a class "Cats"' in refused(tmp_path)
    assert 'is it "cats"?' in refused(tmp_path)


def test_what_systems_leave_behind_is_not_seen(tmp_path):
    classes(tmp_path, a=2, b=2)
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._c0.png", ".hidden.png"):
        (tmp_path / name).write_bytes(b"x")
        (tmp_path / "a" / name).write_bytes(b"x")
    for name in (".thumbnails", "__MACOSX", "@eaDir", ".ipynb_checkpoints"):
        picture(tmp_path / name / "c9.png")
        picture(tmp_path / "a" / name / "c9.png")
    tree = picture_tree.read(tmp_path)
    assert tree.classes == ("a", "b")
    assert len(tree.parts["train"].files) == 4
    assert tree.notes == ()


def test_files_that_are_no_pictures_are_named(tmp_path):
    classes(tmp_path, a=1, b=1)
    for name in ("notes.txt", "labels.csv", "movie.mp4", "x", "run.eps"):
        (tmp_path / "b" / name).write_bytes(b"x")
    (note,) = picture_tree.read(tmp_path).notes
    assert "no pictures, left out: 5 (b/labels.csv, b/movie.mp4, b/notes.txt and 2 more)" in note


def test_an_empty_class_folder_is_left_out_and_named(tmp_path):
    classes(tmp_path / "train", a=1, b=1, empty=0)
    classes(tmp_path / "val", a=1, empty=0)
    tree = picture_tree.read(tmp_path)
    assert tree.classes == ("a", "b")
    assert any(str(tmp_path / "train") in note and "empty" in note for note in tree.notes)


def test_pictures_in_no_class_are_left_out_and_named(tmp_path):
    picture(classes(tmp_path, a=1, b=1) / "loose.png")
    (note,) = picture_tree.read(tmp_path).notes
    assert "loose.png" in note


@pytest.mark.parametrize("also_above", [False, True])
def test_pictures_one_level_too_deep_are_refused_with_their_path(tmp_path, also_above):
    classes(tmp_path, a=2, b=2 if also_above else 0)
    picture(tmp_path / "b" / "more" / "c.png")
    assert str(tmp_path / "b" / "more") in refused(tmp_path)


def test_a_folder_around_everything_is_named_as_the_path_that_is_meant(tmp_path):
    classes(tmp_path / "photos", a=2, b=2)
    assert f'is path = "{tmp_path / "photos"}" meant?' in refused(tmp_path)
    for part in ("train", "val"):
        classes(tmp_path / "outer" / "photos" / part, a=2, b=2)
    assert f'is path = "{tmp_path / "outer" / "photos"}" meant?' in refused(tmp_path / "outer")


def test_folders_below_a_class_without_pictures_do_not_matter(tmp_path):
    (classes(tmp_path, a=2, b=2) / "a" / "annotations").mkdir()
    (tmp_path / "a" / "annotations" / "c0.xml").write_text("")
    assert len(picture_tree.read(tmp_path).parts["train"].files) == 4


def test_other_folders_beside_the_parts_are_named(tmp_path):
    for part in ("train", "tset"):
        classes(tmp_path / part, a=1, b=1)
    (note,) = picture_tree.read(tmp_path).notes
    assert "tset" in note


def test_a_class_may_be_called_train(tmp_path):
    assert picture_tree.read(classes(tmp_path, bus=1, train=2)).classes == ("bus", "train")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "no folders with pictures"),
        ({"only": 3}, 'only the class "only"'),
        ({"a": 0, "b": 0}, "no class folder with pictures"),
        ({"val": 1, "a": 1}, "none named train"),
    ],
)
def test_too_little_is_refused(tmp_path, counts, said):
    assert said in refused(classes(tmp_path, **counts))


def test_pictures_without_class_folders_are_refused(tmp_path):
    for part in ("train", "val"):
        picture(tmp_path / part / "a.png")
    assert f"{tmp_path / 'train'} holds pictures, but no folders" in refused(tmp_path)


def test_two_folders_for_one_part_are_refused(tmp_path):
    for part in ("train", "val", "valid"):
        classes(tmp_path / part, a=1, b=1)
    assert "which is the validation part?" in refused(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path):
    assert "is not there" in refused(tmp_path / "absent")
    assert "is not a folder" in refused(picture(tmp_path / "a.png"))


@pytest.mark.skipif(sys.platform == "win32", reason="names that Windows does not allow")
def test_names_that_could_be_interpreted_are_shown_harmlessly(tmp_path):
    classes(tmp_path / "train", **{"[red]": 1, "\x1b[2J": 1})
    tree = picture_tree.read(tmp_path)
    assert tree.classes == ("\x1b[2J", "[red]")
    classes(tmp_path / "test", **{"\x1b[31m": 1})
    assert "\x1b" not in refused(tmp_path)
    (tmp_path / "train" / "[red]" / "\x1b[2J.txt").write_text("")
    (tmp_path / "test" / "\x1b[31m" / "c0.png").unlink()
    assert not any("\x1b" in note for note in picture_tree.read(tmp_path).notes)


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text")
def test_a_class_whose_name_is_no_text_is_refused(tmp_path):
    classes(tmp_path, a=1, b=1)
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    assert "is no readable text" in refused(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links and named pipes")
def test_links_are_followed_and_pipes_are_not_opened(tmp_path):
    classes(tmp_path / "real", a=2, b=1)
    folder = tmp_path / "linked"
    (folder / "b").mkdir(parents=True)
    (folder / "a").symlink_to(tmp_path / "real" / "a")
    (folder / "b" / "c0.png").symlink_to(tmp_path / "real" / "b" / "c0.png")
    (folder / "b" / "gone.png").symlink_to(tmp_path / "absent.png")
    os.mkfifo(folder / "b" / "pipe.png")
    tree = picture_tree.read(folder)
    assert tree.parts["train"].files == ("a/c0.png", "a/c1.png", "b/c0.png")
    assert "b/gone.png, b/pipe.png" in tree.notes[0]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions that stop this user")
def test_a_folder_that_may_not_be_read_is_told(tmp_path):
    classes(tmp_path, a=1, b=1)
    (tmp_path / "b").chmod(0)
    try:
        assert f"{tmp_path / 'b'} cannot be read: Permission denied" in refused(tmp_path)
    finally:
        (tmp_path / "b").chmod(0o700)
