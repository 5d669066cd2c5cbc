"""What may import what, proved in fresh processes; and how large the engine and its files may be."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGINE_LINES = 5_000
FILE_LINES = 400
ON_DEMAND = ("cupy", "numba")


def modules(folder: str, without: str = "") -> list[str]:
    """Importable names of all modules under a folder."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return [
        name
        for name in names
        if not name.endswith("__main__") and not (without and f"{name}.".startswith(f"{without}."))
    ]


def loaded(*names: str) -> set[str]:
    """Top-level packages, and those two levels deep, that are loaded after importing `names` in a fresh process."""
    program = (
        f"import importlib, sys\nfor name in {list(names)!r}: importlib.import_module(name)\n"
        "print('\\n'.join({'.'.join(name.split('.')[:depth]) for name in sys.modules for depth in (1, 2)}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_engine_knows_neither_the_workbench_nor_textual() -> None:
    names = [name for name in modules("engine") if not name.startswith("engine.ops.c")]
    assert len(names) > 30
    assert not loaded(*names) & {"fnwork", "textual", "rich", *ON_DEMAND}


def test_the_command_line_knows_no_textual() -> None:
    """Everything of the workbench outside its screens, imported together."""
    names = modules("fnwork", without="fnwork.tui")
    assert "fnwork.cli" in names
    found = loaded(*names)
    assert not found & {"textual", "fnwork.tui", *ON_DEMAND}


def test_the_command_line_starts_with_little() -> None:
    heavy = {"textual", "numba", "cupy", "numpy", "engine.data", "fnwork.datasets", "pydantic", "PIL"}
    assert not loaded("fnwork.cli") & heavy


def test_the_screens_are_the_place_of_textual() -> None:
    """Else the tests above could pass because Textual is not installed."""
    assert "textual" in loaded("fnwork.tui.app")


@pytest.mark.parametrize("package", ON_DEMAND)
def test_accelerators_are_imported_by_operations_and_devices_alone(package: str) -> None:
    """Read from the source, since such imports stand inside functions."""
    found = set()
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "fnwork").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == package for name in names):
                found.add(path.relative_to(ROOT).as_posix())
    assert not [path for path in found if not path.startswith("engine/ops/") and path != "engine/device.py"]


def code_lines(path: Path) -> int:
    """Lines that hold code: not blank, not comments, not docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".cu":
        return sum(bool(re.sub("//.*", "", line).strip()) for line in text.splitlines())
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len({line for line in lines if line <= len(text.splitlines())})


def test_lines_are_counted_without_blanks_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        '"""One.\n\nTwo.\n"""\n\n# three\nx = 1  # four\n\n\ndef f():\n    """Five."""\n    return """a\nb"""\n'
    )
    assert code_lines(path) == 4
    kernels = tmp_path / "x.cu"
    kernels.write_text("// one\nint x;  // two\n\nint y;\n")
    assert code_lines(kernels) == 2


def test_the_engine_can_be_read_in_an_evening() -> None:
    """The kernels of a card included."""
    files = [*(ROOT / "engine").rglob("*.py"), *(ROOT / "engine").rglob("*.cu")]
    assert 1_000 < sum(map(code_lines, files)) <= ENGINE_LINES


def test_files_are_of_one_idea() -> None:
    engine = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "engine").rglob("*.py")}
    workbench = {path.name: code_lines(path) for path in (ROOT / "fnwork").rglob("*.py")}
    assert not {name: lines for name, lines in (engine | workbench).items() if lines > FILE_LINES}
