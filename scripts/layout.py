"""Measure the layout of the sources and check its limits.

Run by `scripts/layout`, and by `scripts/lint` with `--quiet`. Standard library only.
"""

from __future__ import annotations

import argparse
import ast
import io
import pathlib
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

SOURCES = pathlib.Path("src/pykcp")
MOST_SIBLINGS = 25
LONGEST_FUNCTION = 60
TASK_MAKERS = frozenset(("create_task", "ensure_future", "TaskGroup", "Task"))
"""Names of asyncio that make tasks; `pykcp.aio` alone calls them, so that no failure is lost."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Layout:
    """What was measured; places are `path:line name`."""

    siblings: dict[str, int] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    functions: list[tuple[int, str]] = field(default_factory=list)
    files: list[tuple[int, str]] = field(default_factory=list)
    task_makers: list[str] = field(default_factory=list)
    local_imports: int = 0
    comments: int = 0

    def crowded(self) -> list[str]:
        return [f"{n} {path}" for path, n in self.siblings.items() if n > MOST_SIBLINGS]

    def repeated(self) -> list[str]:
        return [
            f"{name}: {', '.join(paths)}"
            for name, paths in sorted(self.classes.items())
            if len(paths) > 1
        ]

    def long_functions(self) -> list[str]:
        return [f"{n} {place}" for n, place in self.functions if n > LONGEST_FUNCTION]


def measure(sources: pathlib.Path) -> Layout:
    layout = Layout()
    for folder in _folders(sources):
        layout.siblings[str(folder)] = sum(
            _is_module(child) or _is_package(child) for child in folder.iterdir()
        )
        for path in sorted(folder.glob("*.py")):
            _measure_file(path, layout)
    return layout


def _folders(sources: pathlib.Path) -> Iterator[pathlib.Path]:
    yield sources
    for child in sorted(sources.rglob("*")):
        if _is_package(child):
            yield child


def _is_package(path: pathlib.Path) -> bool:
    return path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py"))


def _is_module(path: pathlib.Path) -> bool:
    return path.suffix == ".py" and path.name != "__init__.py"


def _measure_file(path: pathlib.Path, layout: Layout) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    layout.files.append((text.count("\n"), str(path)))
    layout.comments += sum(
        token.type == tokenize.COMMENT
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            layout.classes[node.name].append(str(path.relative_to(SOURCES)))
    if "aio" not in path.relative_to(SOURCES).parts[:1]:
        layout.task_makers += _task_makers(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, Function):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            layout.functions.append((length, f"{path}:{node.lineno} {node.name}"))
            layout.local_imports += sum(
                isinstance(child, ast.Import | ast.ImportFrom) for child in ast.walk(node)
            )


def _task_makers(path: pathlib.Path, tree: ast.Module) -> Iterator[str]:
    """Calls that make tasks, which import contracts cannot see."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = getattr(called, "attr", None) or getattr(called, "id", None)
        if name in TASK_MAKERS:
            yield f"{path}:{node.lineno} {name}"


def _report(layout: Layout) -> list[str]:
    lengths = [n for n, _ in layout.functions]
    lines = [n for n, _ in layout.files]
    longest_file, longest_function = max(layout.files), max(layout.functions)
    fullest = max((n, path) for path, n in layout.siblings.items())
    long_share = sum(n > 50 for n in lengths) / len(lengths)
    return [
        f"lines: {sum(lines)}",
        f"files: {len(lines)}, median {statistics.median(lines):.0f} lines",
        f"longest file: {longest_file[0]} lines, {longest_file[1]}",
        f"functions: {len(lengths)}, median {statistics.median(lengths):.0f} lines",
        f"functions over 50 lines: {long_share:.2%}",
        f"longest function: {longest_function[0]} lines, {longest_function[1]}",
        f"folders: {len(layout.siblings)}, most siblings {fullest[0]} in {fullest[1]}",
        f"public classes: {len(layout.classes)}, names used twice: {len(layout.repeated())}",
        f"imports inside functions: {layout.local_imports}",
        f"comments: {1000 * layout.comments / sum(lines):.1f} in 1000 lines",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="print only what exceeds a limit")
    quiet = parser.parse_args().quiet
    layout = measure(SOURCES)
    if not quiet:
        print("\n".join(_report(layout)))
    problems = (
        (f"folders with more than {MOST_SIBLINGS} modules and packages", layout.crowded()),
        ("public class names that occur more than once", layout.repeated()),
        (f"functions of more than {LONGEST_FUNCTION} lines", layout.long_functions()),
        (
            "tasks made outside of pykcp.aio (use spawn, spawn_detached or TaskOwner)",
            layout.task_makers,
        ),
    )
    for title, found in problems:
        if found:
            print(f"{title}:", *found, sep="\n  ", file=sys.stderr)
    return int(any(found for _, found in problems))


if __name__ == "__main__":
    sys.exit(main())
