"""The audit log file: rotation, clearing, compression, a full disk."""

from __future__ import annotations

import gzip
import os
import pathlib

import pytest

from pykcp.observe.audit.logfile import LogFile
from pykcp.observe.audit.settings import LogSettings

DAY = 86400.0
LINE = b"x" * 49


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.125

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def log(path: pathlib.Path, clock: Clock, max_bytes: int = 100, **settings: int) -> LogFile:
    return LogFile(LogSettings(path=str(path), **settings), clock, max_bytes)  # type: ignore[arg-type]


def test_lines_are_appended_and_the_file_is_private(tmp_path: pathlib.Path, clock: Clock) -> None:
    path = tmp_path / "deep" / "audit.log"
    first = log(path, clock, 0)
    first.write([b"one", b"two"])
    first.close()
    log(path, clock, 0).write([b"three"])
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_becomes_a_backup(tmp_path: pathlib.Path, clock: Clock) -> None:
    path = tmp_path / "audit.log"
    file = log(path, clock)
    for _ in range(3):
        file.write([LINE])
    assert path.stat().st_size == 50
    (backup,) = file.backups()
    assert backup.name == "audit-2023-11-14T22-13-20.125.log"
    assert backup.stat().st_size == 100


def test_a_file_that_was_full_before_the_start_is_rotated(
    tmp_path: pathlib.Path, clock: Clock
) -> None:
    path = tmp_path / "audit"
    path.write_bytes(b"y" * 90)
    file = log(path, clock)
    file.write([LINE])
    assert [b.name for b in file.backups()] == ["audit-2023-11-14T22-13-20.125"]


def test_old_backups_are_cleared_by_number(tmp_path: pathlib.Path, clock: Clock) -> None:
    (tmp_path / "audit-notes.log").write_text("mine")
    file = log(tmp_path / "audit.log", clock, 50, max_backups=2)
    for _ in range(6):
        file.write([LINE])
        clock.now += 1
    assert len(file.backups()) == 2
    assert (tmp_path / "audit-notes.log").exists(), "what is no backup is left alone"


def test_old_backups_are_cleared_by_age(tmp_path: pathlib.Path, clock: Clock) -> None:
    file = log(tmp_path / "audit.log", clock, 50, max_age=3)
    file.write([LINE])
    file.write([LINE])
    (oldest,) = file.backups()
    clock.now += 4 * DAY
    file.write([LINE])
    assert len(file.backups()) == 1
    assert oldest not in file.backups()


def test_backups_can_be_compressed(tmp_path: pathlib.Path, clock: Clock) -> None:
    file = log(tmp_path / "audit.log", clock, 50, compress=True)
    file.write([LINE])
    file.write([LINE])
    (backup,) = file.backups()
    assert backup.name.endswith(".log.gz")
    assert gzip.decompress(backup.read_bytes()) == LINE + b"\n"


def test_a_full_disk_leaves_no_half_lines(
    tmp_path: pathlib.Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.log"
    file = log(path, clock, 0)
    file.write([b"whole"])
    real = os.write

    def short(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr("os.write", short)
        with pytest.raises(OSError, match="No space left"):
            file.write([b"half of this"])
    file.write([b"whole again"])
    assert path.read_bytes() == b"whole\nwhole again\n"
