"""The reference pages say what the code says; links lead somewhere; every reason is explained."""

from __future__ import annotations

import pathlib
import re

import pytest

from pykcp.cli import reference

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", reference.PAGES)
def test_pages_are_up_to_date(name: str) -> None:
    """Whoever adds a flag, gate, kind, metric or error runs scripts/docs."""
    written = (DOCS / "reference" / name).read_text()
    assert written == reference.PAGES[name](), f"{name} is out of date: run scripts/docs"


def test_every_reason_is_explained() -> None:
    """No error without a sentence on when it is given, and no sentence without an error."""
    assert {reason for _, reason in reference.reasons()} == set(reference.WHEN)


def test_every_metric_has_a_sentence() -> None:
    """Help texts are sentences."""
    odd = [n for n, (_, text) in reference.metrics_in_source().items() if not text.endswith(".")]
    assert odd == []


def test_every_field_has_a_meaning() -> None:
    rows = re.findall(r"^\| `(.*)` \| .* \| (.*) \|$", reference.PAGES["fields.md"](), re.MULTILINE)
    assert len(rows) > 500
    assert [path for path, text in rows if not text.removeprefix("**required**").strip()] == []


def test_every_command_has_its_flags() -> None:
    """Commands of kcp's help, and every plug-in that has flags of its own."""
    page = reference.PAGES["flags.md"]()
    for heading in ("kcp upgrade", "kcp cert", "kcp envtest DIR", "kcp admin fsck", "apigen"):
        assert f"# `{heading}`\n" in page, heading
    for called in ("kubectl ws tree", "kubectl create workspace", "kubectl kcp bind apiexport"):
        assert f"### `{called}" in page, called


def test_check_says_what_is_stale(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check only tells, without it the pages are written; then nothing is stale."""
    monkeypatch.setattr(reference, "PAGES", {"gates.md": reference.gates_page})
    assert reference.main(["--check", str(tmp_path)]) == 1
    assert not (tmp_path / "gates.md").exists()
    assert reference.main([str(tmp_path)]) == 0
    assert reference.main(["--check", str(tmp_path)]) == 0
    assert "gates.md is out of date" in capsys.readouterr().out


PAGES = sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    """Relative links name files that are there."""
    targets = [t for t in _LINK.findall(page.read_text()) if "://" not in t]
    missing = [t for t in targets if not (page.parent / t).exists()]
    assert missing == []
