"""The documentation as a site: it builds without a warning, and says what the code says."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
_DOMAIN = re.compile(r'"((?:[a-z]+\.)*(?:pykcp|kcp)\.(?:io|dev)/[a-zA-Z0-9-]*)"')
_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d+)?$")
_METRIC = re.compile(r"\b((?:apiserver|pykcp|workqueue)_[a-z_]+)")


def hook() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_builds(tmp_path: pathlib.Path) -> None:
    """Every link leads to a page and a heading, every page is in the navigation."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for made in tmp_path.rglob("*.html"):
        assert "```" not in made.read_text(encoding="utf-8"), (
            f"{made} has a block that is shown as text"
        )
    for page in DOCS.rglob("*.md"):
        name = "index.md" if page.name == "README.md" else page.name
        assert page.with_name(name).relative_to(DOCS).with_suffix(".html").as_posix() in {
            path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")
        }


def test_no_page_is_listed_twice() -> None:
    yaml = pytest.importorskip("yaml")
    pages = hook().pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert [page for page in sorted(set(pages)) if pages.count(page) > 1] == []


def test_pages_that_are_not_listed_are_added() -> None:
    site = hook()
    nav = [{"Guides": ["guides/a.md"]}, {"About": []}]
    made = site.completed(nav, ["guides/a.md", "guides/b.md", "other/c.md"])
    assert made == [{"Guides": ["guides/a.md", "guides/b.md"]}, {"About": ["other/c.md"]}]


def names_in_source() -> set[str]:
    """Annotations, labels and finalizers that the code names; plug-ins and versions are not."""
    found = set()
    for path in (ROOT / "src" / "pykcp").rglob("*.py"):
        found |= set(_DOMAIN.findall(path.read_text(encoding="utf-8")))
    return {n for n in found if not _VERSION.search(n) and not re.search(r"/[A-Z]", n)}


def test_every_annotation_is_described() -> None:
    page = (DOCS / "reference" / "annotations.md").read_text(encoding="utf-8")
    missing = [name for name in sorted(names_in_source()) if name not in page]
    assert [name for name in missing if name not in _GROUPS] == []


_GROUPS = {
    "apis.kcp.io/",
    "experimental.workloads.kcp.dev/",
    "internal.workloads.kcp.dev/",
    "workload.kcp.dev/",
    "workloads.kcp.dev/",
    "workloads.kcp.dev/syncer-",
}
"""Beginnings of names that the code compares with."""


def test_metrics_of_pages_and_dashboards_exist() -> None:
    known = set(_METRIC.findall((DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")))
    dashboard = json.loads((ROOT / "deploy" / "dashboards" / "kcp.json").read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts.append((DOCS / "operate" / "monitoring.md").read_text(encoding="utf-8"))
    for name in _METRIC.findall(" ".join(texts)):
        assert re.sub(r"_(bucket|count|sum)$", "", name) in known, name
