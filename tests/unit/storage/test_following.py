"""A store that follows the file of another one, which takes over parts of other shards."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Callable

import pytest

from pykcp.storage.interface import Event
from pykcp.storage.moving import IncomingRow
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.progress import LogProgress, SharedWords
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.following import FollowingStore, LostTrack
from pykcp.storage.values import Value

PART = "moving"
MAPS = "core/configmaps/"
FAR = 1_000


class Announcements:
    """What the writer says to processes that follow it."""

    def __init__(self, progress: LogProgress) -> None:
        self._progress = progress

    def announce(self, revision: int) -> None:
        self._progress.revision = revision

    def announce_compaction(self, revision: int) -> None:
        self._progress.compacted = revision

    def announce_adoption(self, since: int) -> None:
        self._progress.note_adoption(since)

    def drain(self, drained: Callable[[], None]) -> None:
        drained()

    def resume(self) -> None: ...


class Pair:
    def __init__(self, path: pathlib.Path) -> None:
        progress = LogProgress(SharedWords.create(LogProgress.SIZE), 0)
        self.writer = SQLiteStore(path, followers=Announcements(progress))
        self.follower = FollowingStore(path, progress)
        self.heard: list[Event] = []
        self.ended = 0

    async def start(self) -> None:
        await self.writer.start()
        await self.follower.start()
        self.follower.listen(self.heard.extend)
        self.follower.on_adopted = self._note

    def _note(self) -> None:
        assert not [event for event in self.heard if event.key.startswith(f"{MAPS}{PART}/")]
        self.ended += 1

    async def put(self, key: str) -> int:
        return (await self.writer.write((put(key),)))[0]

    async def adopt(self, count: int, base: int) -> None:
        rows = [IncomingRow(put(key_of(n)), base + n) for n in range(1, count + 1)]
        rows.append(IncomingRow(DeleteKey(key_of(1), Value(b"d", b"")), base + count + 1))
        await self.writer.stage(PART, rows, "note")
        await self.writer.advance(base + count + 1)
        await self.writer.adopt(PART, base)

    def names(self) -> list[str]:
        return [event.key.rpartition("/")[2] for event in self.heard]


def put(key: str) -> PutKey:
    return PutKey(key, Value(b'{"rv":"', b'"}'), "", (), None)


def key_of(number: int) -> str:
    return f"{MAPS}{PART}/default/object-{number:04}"


@pytest.fixture
async def pair(tmp_path: pathlib.Path) -> AsyncIterator[Pair]:
    both = Pair(tmp_path / "store")
    await both.start()
    yield both
    await both.follower.stop()
    await both.writer.stop()


def refresh(store: FollowingStore) -> int:
    """Take all that is new; how many steps it took."""
    steps = 1
    while not store.refresh():
        steps += 1
    return steps


async def test_listeners_hear_of_what_was_adopted_before_what_came_later(pair: Pair) -> None:
    await pair.writer.advance(FAR)
    await pair.put(f"{MAPS}root/default/before")
    refresh(pair.follower)
    await pair.adopt(300, pair.writer.revision)
    later = await pair.put(f"{MAPS}root/default/later")

    assert refresh(pair.follower) > 3, "it was done in one step, however large"
    wanted = [f"object-{n:04}" for n in range(2, 301)]
    assert pair.names() == ["before", *wanted, "later"]
    assert pair.ended == 1
    assert pair.follower.revision == later
    entry = pair.follower.get(key_of(2))
    assert entry is not None
    assert entry.revision < later
    assert refresh(pair.follower) == 1
    assert pair.ended == 1, "the same part counted twice"


async def test_one_that_is_behind_hears_of_nothing_twice(pair: Pair) -> None:
    await pair.writer.advance(FAR)
    base = await pair.put(f"{MAPS}root/default/before")
    refresh(pair.follower)
    await pair.adopt(3, base)  # revisions that the follower has not reached
    refresh(pair.follower)
    assert pair.names() == ["before", "object-0002", "object-0003"]


async def test_one_that_starts_later_knows_it_from_the_file(pair: Pair) -> None:
    await pair.writer.advance(FAR)
    await pair.adopt(3, pair.writer.revision)
    await pair.follower.stop()
    await pair.follower.start()
    await pair.put(f"{MAPS}root/default/later")
    refresh(pair.follower)
    assert pair.names() == ["later"]
    assert pair.ended == 0


async def test_history_of_an_adopted_part_is_complete_since_its_copy(pair: Pair) -> None:
    await pair.writer.advance(FAR)
    refresh(pair.follower)
    base = pair.writer.revision
    await pair.adopt(3, base)
    refresh(pair.follower)
    prefix = f"{MAPS}{PART}/"
    assert pair.follower.complete_since(prefix) == base
    events = (await pair.follower.history(prefix, base, pair.follower.revision, 100)).events
    assert [event.deleted for event in events] == [False, False, False, True]


async def test_one_that_may_know_what_has_gone_starts_anew(pair: Pair) -> None:
    await pair.writer.advance(FAR)
    await pair.put(f"{MAPS}root/default/before")  # or the end of what the part had here before
    await pair.adopt(3, pair.writer.revision)
    lost: list[LostTrack] = []
    pair.follower.on_lost = lost.append
    with pytest.raises(LostTrack):
        refresh(pair.follower)
    assert len(lost) == 1
