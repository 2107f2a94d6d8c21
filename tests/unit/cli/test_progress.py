"""What commands that work for long show on a terminal, and that files get nothing of it."""

from __future__ import annotations

import io
import logging
import pathlib
import threading

import pytest

from pykcp.cli.progress import shown_progress, written_below


class Terminal(io.StringIO):
    """What it shows at last is what follows the last erasure of the line."""

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        return self.getvalue().rpartition("\x1b[K")[2]


@pytest.fixture(autouse=True)
def term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Work:
    """Says how far it is, and when it was asked."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    def measure(self) -> str:
        self.is_asked.set()
        return "half"

    def is_shown(self, terminal: Terminal) -> bool:
        """Drawing follows asking; the next question comes after both."""
        for _ in range(2):
            self.is_asked.clear()
            assert self.is_asked.wait(20)
        return "working: " in terminal.getvalue()


def test_a_line_while_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, work = Terminal(), Work()
    with shown_progress("working", work.measure, terminal, quiet=0.0) as say:
        assert work.is_shown(terminal)
        assert terminal.line().endswith(" s, half")
        say("a result")
    assert terminal.line() == ""
    assert capsys.readouterr().out == "a result\n"


def test_short_work_shows_nothing() -> None:
    terminal = Terminal()
    with shown_progress("working", stream=terminal, quiet=60.0):
        pass
    assert terminal.getvalue() == ""


def test_files_get_nothing() -> None:
    work, file = Work(), io.StringIO()
    with shown_progress("working", work.measure, file, quiet=0.0) as say:
        say("")
    assert file.getvalue() == ""
    assert not work.is_asked.is_set()


def test_a_failure_is_not_hidden() -> None:
    terminal, work = Terminal(), Work()

    def fail() -> None:
        with shown_progress("working", work.measure, terminal, quiet=0.0):
            assert work.is_shown(terminal)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert terminal.line() == ""


def test_logs_begin_at_a_line_of_their_own() -> None:
    terminal, work = Terminal(), Work()
    handler = logging.StreamHandler(terminal)
    logging.getLogger().addHandler(handler)
    try:
        with shown_progress("working", work.measure, terminal, quiet=0.0):
            assert work.is_shown(terminal)
            logging.getLogger(__name__).warning("look out")
            assert "\x1b[Klook out\n" in terminal.getvalue()
        assert handler.filters == []
    finally:
        logging.getLogger().removeHandler(handler)


def test_what_was_written(tmp_path: pathlib.Path) -> None:
    (tmp_path / "old").write_bytes(bytes(1 << 20))
    measure = written_below([tmp_path, tmp_path / "missing"])
    assert measure() == ""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "new").write_bytes(bytes(3 << 19))
    assert measure() == "1.5 MiB written"
    assert written_below([tmp_path / "old"])() == ""
