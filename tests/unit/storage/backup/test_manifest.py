"""The table of contents of a backup: which segments a point in time needs."""

from __future__ import annotations

import io
import pathlib
import tarfile

import pytest

from pykcp.storage.backup.archive import DirectoryArchive, TarArchive, opened_archive
from pykcp.storage.backup.manifest import (
    FILE,
    BackupError,
    Manifest,
    Member,
    Segment,
    manifest_from,
    point_of,
)


def segment(since: int, until: int, time: float, oldest: int = -1) -> Segment:
    oldest = since if oldest < 0 else oldest
    return Segment("f", "", 0, 0, time, since, until, oldest, is_full=since == 0)


MEMBER = Member(
    "",
    "sqlite",
    (
        segment(0, 100, 10.0, oldest=60),
        segment(100, 200, 20.0),
        segment(200, 300, 30.0, oldest=300),
        segment(0, 350, 40.0, oldest=340),
        segment(350, 400, 50.0),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "revision", "segments"),
    [
        ({}, 400, [350, 400]),
        ({"revision": 400}, 400, [350, 400]),
        ({"revision": 345}, 345, [350]),
        ({"revision": 150}, 150, [100, 200]),
        ({"revision": 60}, 60, [100]),
        ({"revision": 300}, 300, [100, 200, 300]),
        ({"time": 35.0}, 300, [100, 200, 300]),
        ({"time": 99.0}, 400, [350, 400]),
    ],
)
def test_points(wanted: dict[str, float], revision: int, segments: list[int]) -> None:
    point = point_of(MEMBER, **wanted)  # type: ignore[arg-type]
    assert point.revision == revision
    assert [one.until for one in point.segments] == segments


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"revision": 59}, "cannot be restored to revision 59; it has 60 to 100, 100 to 200"),
        ({"revision": 250}, "cannot be restored to revision 250"),
        ({"revision": 401}, "cannot be restored to revision 401"),
        ({"time": 9.9}, "has nothing from before that time"),
    ],
)
def test_points_that_there_are_not(wanted: dict[str, float], text: str) -> None:
    with pytest.raises(BackupError, match=text):
        point_of(MEMBER, **wanted)  # type: ignore[arg-type]


def test_versions() -> None:
    made = Manifest("v1", (MEMBER,))
    assert manifest_from(made.encoded(), "x") == made
    with pytest.raises(BackupError, match="x has backup format 2, this program knows 1"):
        manifest_from(b'{"format": 2, "program": "v9", "unknown": {}}', "x")
    with pytest.raises(BackupError, match="x is not the manifest of a backup"):
        manifest_from(b"[]", "x")


def test_a_file_that_was_not_written_to_its_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "backup.tar"
    with opened_archive(path) as archive:
        assert isinstance(archive, TarArchive)
        archive.add_bytes("files/a", b"a" * 1000)
        archive.commit(Manifest("first"))
        end = archive._end
    with opened_archive(path) as archive:
        archive.add_bytes("files/b", b"b" * 5000)
        archive.commit(Manifest("second"))
    whole = path.read_bytes()
    for size in (end, end + 1, end + 512, end + 3000, end + 6000):
        path.write_bytes(whole[:size])
        with opened_archive(path) as archive:
            found = archive.manifest()
            assert found is not None
            assert found.program == "first"
            assert not archive.has("files/b")
            archive.add_bytes("files/c", b"c")
            archive.commit(Manifest("third"))
            assert archive.manifest() == Manifest("third")
            with archive.read("files/a") as source:
                assert source.read() == b"a" * 1000
        with tarfile.open(path) as tar:
            assert tar.getnames()[-1] == FILE


def test_not_a_backup(tmp_path: pathlib.Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"")
    with pytest.raises(BackupError, match="is not empty and not a backup"):
        DirectoryArchive(tmp_path / "photos").manifest()
    file = tmp_path / "other.tar"
    with tarfile.open(file, "w") as tar:
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with opened_archive(file) as archive, pytest.raises(BackupError, match="is not a backup"):
        archive.manifest()
    file.write_bytes(b"no tar at all" * 100)
    with pytest.raises(BackupError, match="is not a backup"):
        TarArchive(file)
