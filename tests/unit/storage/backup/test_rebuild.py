"""Segments of a store that is written to and compacted, and stores rebuilt from them."""

from __future__ import annotations

import io
import pathlib
import random
import sqlite3
from contextlib import closing

import pytest

from pykcp.storage.backup.capture import ROWS, Captured, opened
from pykcp.storage.backup.manifest import BackupError
from pykcp.storage.backup.rebuild import SPARE_REVISIONS, Rebuilt, raised, rebuild
from pykcp.storage.backup.segments import LogRow, SegmentWriter, read_segment
from pykcp.storage.errors import Compacted
from pykcp.storage.interface import Query, Value
from pykcp.storage.moving import IncomingRow
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore, files

State = dict[str, bytes]


class Saved:
    """A store and the segments of it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.path = directory / "store.db"
        self.store = SQLiteStore(self.path)
        self.segments: list[tuple[pathlib.Path, str, Captured]] = []

    def save(self) -> Captured:
        since = self.segments[-1][2].until if self.segments else 0
        path = self.directory / f"segment-{len(self.segments)}"
        writer = SegmentWriter(path)
        with opened(self.path) as source:
            captured = source.capture(since, writer)
        writer.finish()
        self.segments.append((path, writer.sha256, captured))
        return captured

    def rebuild(self, count: int, revision: int = 0) -> tuple[pathlib.Path, Rebuilt]:
        """From the first segments, as of the last of them or at a revision."""
        chosen = self.segments[:count]
        target = self.directory / f"rebuilt-{count}-{revision}.db"
        lines = (
            read_segment(io.BytesIO(path.read_bytes()), path.name, digest)
            for path, digest, _ in chosen
        )
        at = revision or chosen[-1][2].until
        made = rebuild(target, lines, at, 0, 0.0, lambda key, value, terms: f"re:{key}")
        return target, made

    async def put(self, key: str, text: str, *indexes: str) -> int:
        value = Value(b'{"v":"', b'","t":"%b"}' % text.encode())
        return (await self.store.write([PutKey(key, value, f"\x1f{text}\x1f", indexes)]))[0]

    async def delete(self, key: str) -> None:
        await self.store.write([DeleteKey(key, Value(b"<", b">"))])

    def state(self) -> State:
        return read(self.store)


def read(store: SQLiteStore) -> State:
    return {key: entry.value for key in store.keys("") if (entry := store.get(key))}


async def content(path: pathlib.Path) -> State:
    store = SQLiteStore(path)
    await store.start()
    try:
        return read(store)
    finally:
        await store.stop()


async def test_any_history_comes_back_at_every_point(tmp_path: pathlib.Path) -> None:
    for seed in range(6):
        directory = tmp_path / str(seed)
        directory.mkdir()
        saved, chance, states = Saved(directory), random.Random(seed), []
        await saved.store.start()
        for _ in range(5):
            for _ in range(chance.randrange(40)):
                key = f"g/r/c{chance.randrange(3)}//n{chance.randrange(8)}"
                if chance.random() < 0.3 and saved.store.get(key):
                    await saved.delete(key)
                else:
                    await saved.put(key, f"t{chance.randrange(99)}", "all")
            if chance.random() < 0.5 and saved.store.revision:
                await saved.store.compact(saved.store.revision - chance.randrange(3))
            saved.save()
            states.append(saved.state())
        await saved.store.stop()
        for count, state in enumerate(states, 1):
            path, made = saved.rebuild(count)
            assert await content(path) == state, (seed, count)
            assert made.objects == len(state)


async def test_a_revision_between_two_segments(tmp_path: pathlib.Path) -> None:
    saved = Saved(tmp_path)
    await saved.store.start()
    await saved.put("g/r/c//a", "one")
    saved.save()
    wanted = await saved.put("g/r/c//a", "two", "known")
    state = saved.state()
    await saved.put("g/r/c//a", "three", "known")
    await saved.delete("g/r/c//a")
    captured = saved.save()
    await saved.store.stop()
    assert captured.oldest < wanted < captured.until
    path, _ = saved.rebuild(2, wanted)
    assert await content(path) == state
    connection = sqlite3.connect(path)
    # it was superseded when it was saved: its index entries are computed anew
    assert connection.execute("SELECT term, key FROM idx").fetchall() == [
        ("re:g/r/c//a", "g/r/c//a")
    ]
    connection.close()


async def test_a_restored_store_is_ahead_of_the_lost_one(tmp_path: pathlib.Path) -> None:
    saved = Saved(tmp_path)
    await saved.store.start()
    await saved.put("g/r/c//a", "one", "i")
    saved.save()
    lost = [await saved.put("g/r/c//a", str(number)) for number in range(20)]
    await saved.store.stop()
    path, made = saved.rebuild(1)
    store = SQLiteStore(path)
    await store.start()
    assert store.revision == made.revision > lost[-1] + SPARE_REVISIONS // 2
    assert store.lookup("i") == ["g/r/c//a"]
    with pytest.raises(Compacted):
        await store.history("", lost[5], store.revision, 10)
    page = await store.list(Query("g/r/"))
    assert page.revision == made.revision
    revision = (await store.write([PutKey("g/r/c//b", Value(b"<", b">"))]))[0]
    assert revision > made.revision
    await store.stop()


async def test_rests_between_reads(tmp_path: pathlib.Path) -> None:
    """Servers of the machine come first; but what is written in rests does not prolong them."""
    saved, rests = Saved(tmp_path), list[float]()
    await saved.store.start()
    await _fill(saved.store, 2 * ROWS + 1)
    other = sqlite3.connect(saved.path)
    with opened(saved.path) as source, closing(other):
        newest = source.newest

        def rest(seconds: float) -> None:
            rests.append(seconds)
            for row in range(2 * ROWS):  # faster than they are read
                seq = newest + len(rests) * 2 * ROWS + row
                other.execute("INSERT INTO log VALUES (?, ?, 0, 0, '', x'7b7d')", (seq, f"k{seq}"))
            other.commit()

        writer = SegmentWriter(tmp_path / "segment")
        captured = source.capture(0, writer, rest)
        assert captured.until == source.newest > newest
    writer.discard()
    await saved.store.stop()
    assert len(rests) == 2
    assert all(0 < seconds <= 0.25 for seconds in rests)


async def _fill(store: SQLiteStore, count: int) -> None:
    for number in range(count):
        await store.write([PutKey(f"g/r/c//n{number}", Value(b"<", b">"))])


async def test_a_cluster_that_came_from_another_shard(tmp_path: pathlib.Path) -> None:
    saved = Saved(tmp_path)
    await saved.store.start()
    for name in "abc":
        await saved.put(f"g/r/here//{name}", "x")
    saved.save()
    row = IncomingRow(PutKey("g/r/moved//old", Value(b"<", b">")), 1_000)
    await saved.store.stage("moved", [row], "note")
    await saved.store.advance(2_000)
    saved.save()
    await saved.store.adopt("moved", 1_000)
    captured = saved.save()
    state = saved.state()
    await saved.store.stop()
    assert "g/r/moved//old" in state
    assert captured.oldest == captured.until
    path, _ = saved.rebuild(3)
    assert await content(path) == state


def test_how_far_ahead() -> None:
    assert raised(100, 0, 0.0) == 100 + SPARE_REVISIONS
    assert raised(100, 0, 60.0) == 100 + SPARE_REVISIONS + 60_000
    assert raised(100, 3, 0.0) > 1 << 48
    assert raised(1 << 52, 3, 0.0) == 1 << 52


def test_damaged_segments(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "segment"
    writer = SegmentWriter(path)
    writer.add_rows(
        [LogRow(1, "k", 0, "", "", b"\xff\x00sealed"), LogRow(2, "l", 0, "", None, b"{}")]
    )
    writer.finish()
    first = next(read_segment(io.BytesIO(path.read_bytes()), "s", writer.sha256))
    assert isinstance(first, LogRow)
    assert first.value == b"\xff\x00sealed"
    assert path.stat().st_mode & 0o777 == 0o600
    data = path.read_bytes()
    for damaged in (data[:-5], data[: len(data) // 2], b"", data[:20] + b"!" + data[21:]):
        path.write_bytes(damaged)
        with pytest.raises(BackupError, match=r"s is (damaged|not complete)"):
            list(read_segment(io.BytesIO(path.read_bytes()), "s", writer.sha256))


async def test_an_older_file_is_migrated(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    await store.start()
    await store.write([PutKey("g/r/c//a", Value(b"<", b">"))])
    await store.stop()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
    connection.execute("DELETE FROM meta WHERE name = 'lineage'")
    connection.commit()
    connection.close()
    store = SQLiteStore(path)
    await store.start()
    assert store.get("g/r/c//a") is not None
    await store.stop()
    connection = sqlite3.connect(path)
    assert files.read_meta(connection, "schema") == files.SCHEMA_VERSION
    assert files.read_text(connection, "lineage")
    connection.close()
