"""Several servers on one etcd: alone or not, who leads, and what a server that hung may not do."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from pykcp.storage.errors import StoreUnavailable
from pykcp.storage.etcd import EtcdSettings, EtcdStore
from pykcp.storage.interface import Value
from pykcp.storage.operations import PutKey
from pykcp.storage.testing import EtcdProcess, find_etcd

pytestmark = pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path_factory.mktemp("etcd"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def make(
    etcd: EtcdProcess, tmp_path: pathlib.Path
) -> AsyncIterator[Callable[[str], EtcdStore]]:
    made: list[EtcdStore] = []

    def make_store(name: str) -> EtcdStore:
        settings = EtcdSettings((etcd.url,), str(tmp_path), mirror_path=tmp_path / name)
        made.append(EtcdStore(settings))
        return made[-1]

    yield make_store
    for store in made:
        await store.stop()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110  # the keys of etcd say nothing to the test
            await asyncio.sleep(0.01)


def put(key: str, text: str = "") -> PutKey:
    return PutKey(key, Value(text.encode(), b""), "", (), None)


async def test_the_only_server_does_not_ask_etcd_and_others_do(
    make: Callable[[str], EtcdStore],
) -> None:
    first = make("first")
    await first.start()
    await until(lambda: first.group.is_alone and first.group.is_leader)
    reads = first._barrier.reads
    await first.barrier()
    assert first._barrier.reads == reads
    second = make("second")
    await second.start()
    assert not first.group.is_alone
    assert not second.group.is_alone
    for number in range(20):
        await first.write([put("a/b/c/d/e", str(number))])
        await second.barrier()
        entry = second.get("a/b/c/d/e")
        assert entry is not None
        assert entry.value.startswith(str(number).encode())
    assert second._barrier.reads > 0


async def test_waiting_requests_share_reads_of_etcd(make: Callable[[str], EtcdStore]) -> None:
    stores = [make("first"), make("second")]
    for store in stores:
        await store.start()
    before = stores[0]._barrier.reads
    await asyncio.gather(*(stores[0].barrier() for _ in range(200)))
    assert stores[0]._barrier.reads - before <= 2


async def test_another_server_leads_when_the_leader_stops(
    make: Callable[[str], EtcdStore],
) -> None:
    first, second = make("first"), make("second")
    await first.start()
    await until(lambda: first.group.is_leader)
    await second.start()
    await until(lambda: second.group.members == 2)
    assert not second.group.is_leader
    await first.stop()
    await asyncio.wait_for(second.group.leading(True), 2)
    await until(lambda: second.group.is_alone)


async def test_a_server_whose_lease_has_ended_writes_nothing_until_it_has_joined_again(
    make: Callable[[str], EtcdStore],
) -> None:
    first, second = make("first"), make("second")
    await first.start()
    await until(lambda: first.group.is_leader)
    await second.start()
    group = first._group
    assert group is not None
    # As if it had hung: the lease ends, and the server does not know.
    await first._running_client().revoke(group._lease, 5)
    with pytest.raises(StoreUnavailable, match="lease"):
        await first.write([put("a/b/c/d/e")])
    with pytest.raises(StoreUnavailable, match="lease"):
        await asyncio.gather(*(first.write([put(f"a/b/c/d/{n}")]) for n in range(5)))
    await asyncio.wait_for(second.group.leading(True), 5)
    await until(lambda: not first.group.is_leader)
    assert first.get("a/b/c/d/e") is None
    await until(lambda: group._valid_until > 0 and group._lease != 0)

    async def write() -> bool:
        try:
            await first.write([put("a/b/c/d/e")])
        except StoreUnavailable:
            return False
        return True

    async with asyncio.timeout(10):
        while not await write():  # noqa: ASYNC110  # likewise
            await asyncio.sleep(0.05)


async def test_a_restarted_server_does_not_wait_for_its_own_lease(
    make: Callable[[str], EtcdStore],
) -> None:
    first = make("first")
    await first.start()
    await until(lambda: first.group.is_alone)
    # As if it had been killed: its lease lives on.
    await first._owner.stop()
    first._group = None
    await first.stop()
    again = make("first")
    async with asyncio.timeout(2):
        await again.start()
        await again.write([put("a/b/c/d/e")])
        await until(lambda: again.group.is_alone and again.group.is_leader)
