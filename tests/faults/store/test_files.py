"""Full disks, damaged files and second servers: reported, refused, recovered from."""

from __future__ import annotations

import asyncio
import os
import pathlib
import resource
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator

import pytest

from pykcp.storage.errors import Corrupt, InUse, StoreError, StoreFull, StoreUnavailable
from pykcp.storage.interface import Query, Value
from pykcp.storage.operations import PutKey
from pykcp.storage.sqlite import SQLiteSettings, SQLiteStore, files

BODY = b"x" * 1500


def put(key: str) -> PutKey:
    return PutKey(key, Value(b"", BODY))


async def write_many(store: SQLiteStore, count: int) -> None:
    await asyncio.gather(*(store.write([put(f"/{number:06}")]) for number in range(count)))


async def write_until_full(store: SQLiteStore) -> list[str]:
    """What was acknowledged before there was no room left."""
    written: list[str] = []
    try:
        while True:
            keys = [f"/{len(written) + number:06}" for number in range(20)]
            answers = await asyncio.gather(
                *(store.write([put(key)]) for key in keys), return_exceptions=True
            )
            written += [key for key, answer in zip(keys, answers, strict=True)
                        if isinstance(answer, list)]  # fmt: skip
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
    except StoreFull:
        return written


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what happens in threads tells nobody
            await asyncio.sleep(0.001)


MakeRoom = Callable[[], None]


@pytest.fixture(params=["limit on the size of files", "small disk"])
def small(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[MakeRoom]:
    """The directory has little room, until more is made."""
    if request.param == "small disk":
        yield from small_disk(tmp_path)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def small_disk(directory: pathlib.Path) -> Iterator[MakeRoom]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk takes rights that this user does not have")
    ballast = directory / "ballast"
    ballast.write_bytes(b"x" * (6 << 20))
    yield ballast.unlink
    subprocess.run(["umount", str(directory)], check=True)


async def write_more(store: SQLiteStore) -> None:
    """Until it is refused."""
    for group in range(1000):
        await store.write([put(f"/more/{group}/{number}") for number in range(20)])


async def test_full_disk(tmp_path: pathlib.Path, small: MakeRoom) -> None:
    settings = SQLiteSettings(checkpoint_bytes=1 << 20)
    store = SQLiteStore(tmp_path / "store", settings=settings)
    await store.start()
    written = await write_until_full(store)
    assert len(written) > 100
    assert "no space left to write" in (store.health() or "")
    # Reads go on, and see what was acknowledged.
    assert len((await store.list(Query("/"))).values) == len(written)
    assert store.get(written[-1]) is not None
    revision = store.revision
    # A checkpoint that was under way may have made room for some more.
    with pytest.raises(StoreFull, match="no space left to write"):
        await write_more(store)
    small()
    (after,) = await store.write([put("/after")])
    assert after > revision
    await until(lambda: store.health() is None)
    assert len((await store.list(Query("/0"))).values) == len(written)
    await store.stop()
    again = SQLiteStore(tmp_path / "store", settings=settings)
    await again.start()
    assert len((await again.list(Query("/0"))).values) == len(written)
    await again.stop()


async def test_killed_on_a_full_disk(tmp_path: pathlib.Path, small: MakeRoom) -> None:
    """A store that could not even finish its last checkpoint opens again with everything."""
    store = SQLiteStore(tmp_path / "store")
    await store.start()
    written = await write_until_full(store)
    await store.stop()
    small()
    again = SQLiteStore(tmp_path / "store")
    await again.start()
    found = (await again.list(Query("/"))).values
    assert len(found) == len(written)
    await again.stop()


async def test_not_a_database(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"this is not a database" * 1000)
    with pytest.raises(Corrupt) as raised:
        await SQLiteStore(path).start()
    assert str(path) in str(raised.value)
    assert "restore a backup" in str(raised.value)


async def test_another_programs_database(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    with pytest.raises(Corrupt, match="not one of this program"):
        await SQLiteStore(path).start()


async def test_newer_schema(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store"
    store = SQLiteStore(path)
    await store.start()
    await store.stop()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="schema version 99"):
        await SQLiteStore(path).start()


async def test_cannot_open(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open"):
        await SQLiteStore(tmp_path / "file" / "store").start()


@pytest.fixture
async def damaged(tmp_path: pathlib.Path) -> pathlib.Path:
    """A store whose middle has been overwritten, though its beginning is whole."""
    path = tmp_path / "store"
    store = SQLiteStore(path)
    await store.start()
    await write_many(store, 500)
    await store.stop()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(os.urandom(size // 2))
    return path


async def test_damage_met_while_reading(damaged: pathlib.Path) -> None:
    store = SQLiteStore(damaged)
    await store.start()
    with pytest.raises(Corrupt) as raised:
        await store.list(Query("/"))
    assert str(damaged) in str(raised.value)
    await store.stop()


async def test_damage_found_after_a_crash(damaged: pathlib.Path) -> None:
    """Only then is the whole file looked at, and nobody waits for it."""
    store = SQLiteStore(damaged)
    await store.start()
    assert store.health() is None
    await store.stop()
    lock = damaged.with_name("store.lock")
    assert lock.read_text() == ""
    lock.write_text("4711\n")  # what a crashed server leaves behind
    store = SQLiteStore(damaged)
    await store.start()
    await until(lambda: store.health() is not None)
    assert "is damaged" in (store.health() or "")
    await store.stop()


async def test_crash_without_damage(tmp_path: pathlib.Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    await store.start()
    await write_many(store, 100)
    await store.stop()
    tmp_path.joinpath("store.lock").write_text("4711\n")
    store = SQLiteStore(tmp_path / "store")
    await store.start()
    check = store._check
    assert check is not None
    await until(lambda: check.is_done)
    assert store.health() is None
    await store.stop()


async def test_two_servers(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store"
    first, second = SQLiteStore(path), SQLiteStore(path)
    await first.start()
    with pytest.raises(InUse) as raised:
        await second.start()
    assert str(raised.value) == f"{path} is in use by process {os.getpid()}"
    await first.write([put("/a")])
    await first.stop()
    await second.start()
    assert second.get("/a") is not None
    await second.stop()


async def test_another_program_holds_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store"
    store = SQLiteStore(path)
    await store.start()
    await store.write([put("/a")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.write([put("/b")])
    assert "locked" in (store.health() or "")
    assert store.get("/a") is not None
    other.execute("ROLLBACK")
    other.close()
    await store.write([put("/b")])
    assert store.health() is None
    await store.stop()


async def test_only_the_owner_reads_it(tmp_path: pathlib.Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    await store.start()
    await store.write([put("/secret")])
    for name in ("store", "store-wal", "store-shm", "store.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    await store.stop()


async def test_after_stop_nothing_is_answered(tmp_path: pathlib.Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.get("/a")
        with pytest.raises(StoreUnavailable):
            await store.list(Query("/"))
        with pytest.raises(StoreUnavailable):
            await store.write([put("/a")])
        assert store.health() == "the store is not running"
        await store.start()
        await store.write([put("/a")])
        await store.stop()


async def test_stop_commits_what_was_accepted(tmp_path: pathlib.Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    await store.start()
    writes = [asyncio.create_task(store.write([put(f"/{n}")])) for n in range(300)]
    await asyncio.sleep(0)
    await store.stop()
    await asyncio.gather(*writes)
    await store.start()
    assert await store.count("/") == 300
    await store.stop()


def test_errors_that_mean_no_room() -> None:
    for name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = name
        assert isinstance(files.translate(error, pathlib.Path("x")), StoreFull)
