"""Lost, restarted, full and forgetful etcds: what a store on etcd makes of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykcp.storage.errors import Compacted, InUse, StoreError, StoreFull, StoreUnavailable, TooLarge
from pykcp.storage.etcd import EtcdSettings, EtcdStore, messages
from pykcp.storage.etcd.client import EtcdClient, parse_server
from pykcp.storage.etcd.epochs import Epochs
from pykcp.storage.interface import Event, Query, Value
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.testing import EtcdProcess, find_etcd, free_ports

pytestmark = pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)

WRITE_SECONDS = 1.0
FOREVER = 1 << 62


@pytest.fixture
def etcd(tmp_path: pathlib.Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path / "etcd")
    process.start()
    yield process
    process.kill()


class Proxy:
    """Stands between a store and etcd, and can be cut, stopped up or made one-way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = free_ports(1)[0]
        self.passes_requests = self.passes_answers = True
        self._swallowed = bytearray()
        self._has_swallowed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def swallowed(self, text: bytes) -> None:
        """Return when a request with this text was swallowed: others, as to keep a lease, do not count."""
        while text not in self._swallowed:
            self._has_swallowed.clear()
            await self._has_swallowed.wait()

    async def open(self) -> None:
        self.passes_requests = self.passes_answers = True
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """As if the cable were pulled and the machine gone."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, there_writer}
        for pump in (
            self._pump(reader, there_writer, lambda: self.passes_requests),
            self._pump(there_reader, writer, lambda: self.passes_answers),
        ):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: Callable[[], bool],
    ) -> None:
        try:
            while data := await reader.read(65536):
                if passes():
                    writer.write(data)
                    await writer.drain()
                else:
                    self._swallowed += data
                    self._has_swallowed.set()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)


@pytest.fixture
async def proxy(etcd: EtcdProcess) -> AsyncIterator[Proxy]:
    proxy = Proxy(etcd.client_port)
    await proxy.open()
    yield proxy
    await proxy.cut()


def settings(*servers: str, mirror: pathlib.Path | None = None) -> EtcdSettings:
    return EtcdSettings(servers, mirror_path=mirror, write_seconds=WRITE_SECONDS)


class Opened:
    """Stores that are stopped at the end of the test."""

    def __init__(self) -> None:
        self.stores: list[EtcdStore] = []

    async def __call__(self, settings: EtcdSettings) -> EtcdStore:
        store = EtcdStore(settings)
        await store.start()
        self.stores.append(store)
        return store


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    opened = Opened()
    yield opened
    for store in opened.stores:
        await store.stop()


def put(key: str, text: str = "", expect: int | None = None) -> PutKey:
    return PutKey(key, Value(f"{text or key}@".encode(), b";"), f"\x1f{text}\x1f", ("x",), expect)


def delete(key: str) -> DeleteKey:
    return DeleteKey(key, Value(b"gone@", b";"))


def listening(store: EtcdStore) -> list[Event]:
    events: list[Event] = []
    store.listen(lambda batch: events.extend(batch))
    return events


def described(events: Sequence[Event]) -> list[tuple[int, str, bytes, str, str, bool, bool]]:
    return [
        (e.revision, e.key, e.value, e.terms, e.previous_terms, e.created, e.deleted)
        for e in events
    ]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells when etcd is back
            await asyncio.sleep(0.005)


async def texts(store: EtcdStore, prefix: str = "/") -> list[str]:
    values = (await store.list(Query(prefix))).values
    return [value.split(b"@")[0].decode() for value in values]


async def test_lost_and_found(etcd: EtcdProcess, opened: Opened) -> None:
    store = await opened(settings(etcd.url))
    events = listening(store)
    (before,) = await store.write([put("/a")])
    etcd.kill()
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.write([put("/b")])
    assert time.monotonic() - started < WRITE_SECONDS + 1
    await until(lambda: store.health() is not None)
    assert "etcd" in (store.health() or "")
    assert await texts(store) == ["/a"]
    assert store.get("/a") is not None
    etcd.start()
    await until(lambda: store.health() is None or "followed" not in (store.health() or ""))
    (after,) = await store.write([put("/c")])
    assert after > before
    assert store.health() is None
    assert [event.key for event in events] == ["/a", "/c"]


async def test_silent_etcd(etcd: EtcdProcess, opened: Opened) -> None:
    """It neither answers nor hangs up: a write ends all the same, and is not acknowledged."""
    store = await opened(settings(etcd.url))
    await store.write([put("/a")])
    etcd.signal(signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.write([put("/b")])
    assert time.monotonic() - started < 2 * WRITE_SECONDS + 1
    assert store.health() is not None
    assert await texts(store) == ["/a"]
    etcd.signal(signal.SIGCONT)
    await write_again(store, put("/c"))
    assert "/c" in await texts(store)


async def write_again(store: EtcdStore, operation: PutKey) -> list[int]:
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.write([operation])
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_cut_connections(etcd: EtcdProcess, proxy: Proxy, opened: Opened) -> None:
    """Through many cuts: what was acknowledged is there, and events come once and in order."""
    store = await opened(settings(proxy.url))
    witness = await opened(settings(etcd.url))
    seen, witnessed = listening(store), listening(witness)
    acknowledged: dict[str, int] = {}
    stopping = False

    async def writer(name: int) -> None:
        number = 0
        while not stopping:
            key = f"/{name}/{number}"
            try:
                (acknowledged[key],) = await store.write([put(key, expect=0)])
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            number += 1

    writers = [asyncio.create_task(writer(name)) for name in range(8)]
    for _ in range(5):
        count = len(acknowledged)
        await until(lambda count=count: len(acknowledged) > count + 100)  # type: ignore[misc]
        await proxy.cut()
        await proxy.open()
    stopping = True
    await asyncio.gather(*writers)
    await write_again(store, put("/last"))
    await witness.barrier()
    assert described(seen) == described(witnessed)
    revisions = {event.key: event.revision for event in witnessed}
    assert all(revisions[key] == revision for key, revision in acknowledged.items())
    assert len({event.revision for event in witnessed}) == len(witnessed)


async def test_answer_lost_after_the_write(etcd: EtcdProcess, proxy: Proxy, opened: Opened) -> None:
    """etcd carried it out but its answer was lost: the store finds out and acknowledges."""
    store = await opened(settings(proxy.url))
    witness = await opened(settings(etcd.url))
    await store.write([put("/a")])
    proxy.passes_answers = False
    writing = asyncio.create_task(store.write([put("/b", expect=0)]))
    await until(lambda: witness.get("/b") is not None)
    await proxy.cut()
    await proxy.open()
    (revision,) = await writing
    entry = witness.get("/b")
    assert entry is not None
    assert entry.revision == revision


async def test_request_lost_before_the_write(proxy: Proxy, opened: Opened) -> None:
    """etcd never saw it: the store does not claim that it did."""
    store = await opened(settings(proxy.url))
    await store.write([put("/a")])
    proxy.passes_requests = False
    writing = asyncio.create_task(store.write([put("/lost", expect=0)]))
    await proxy.swallowed(b"/lost")
    await proxy.cut()
    await proxy.open()
    with pytest.raises(StoreUnavailable):
        await writing
    await write_again(store, put("/c"))
    assert await texts(store) == ["/a", "/c"]


async def test_servers_see_each_other(etcd: EtcdProcess, opened: Opened) -> None:
    first = await opened(settings(etcd.url))
    second = await opened(settings(f"{etcd.url}/"))
    here, there = listening(first), listening(second)
    revisions = await first.write([put("/a", "1"), put("/b", "1")])
    await second.barrier()
    assert second.get("/a") == first.get("/a")
    await second.write([put("/a", "2", expect=revisions[0]), delete("/b")])
    await first.barrier()
    assert first.get("/b") is None
    assert described(here) == described(there)
    assert [(e.key, e.deleted) for e in here] == [
        ("/a", False), ("/b", False), ("/a", False), ("/b", True),
    ]  # fmt: skip
    assert here[-1].value == f"gone@{here[-1].revision};".encode()
    assert (await first.list(Query("/"))).values == (await second.list(Query("/"))).values
    assert first.lookup("x") == second.lookup("x") == ["/a"]


async def test_rivals_on_two_servers(etcd: EtcdProcess, opened: Opened) -> None:
    stores = [await opened(settings(etcd.url)) for _ in range(2)]
    await stores[0].write([put("/counter", "0")])

    async def increment(store: EtcdStore) -> None:
        while True:
            entry = store.get("/counter")
            try:
                number = int(entry.value.split(b"@")[0]) if entry else 0
                revision = entry.revision if entry else 0
                await store.write([put("/counter", str(number + 1), expect=revision)])
            except StoreUnavailable:
                raise
            except StoreError:
                continue
            return

    await stores[1].barrier()
    await asyncio.gather(*(increment(store) for store in stores for _ in range(10)))
    for store in stores:
        await store.barrier()
        assert await texts(store) == ["20"]


async def test_restart_goes_on_from_the_mirror(
    etcd: EtcdProcess, tmp_path: pathlib.Path, opened: Opened
) -> None:
    store = await opened(settings(etcd.url, mirror=tmp_path / "mirror"))
    (first,) = await store.write([put("/a")])
    await store.stop()
    other = await opened(settings(etcd.url))
    await other.write([put("/b")])
    await other.write([delete("/a")])
    await store.start()
    assert await texts(store) == ["/b"]
    # What happened while it was down has a history here, and so has what was before.
    events = (await store.history("", first - 1, FOREVER, 100)).events
    assert [(e.key, e.created, e.deleted) for e in events] == [
        ("/a", True, False), ("/b", True, False), ("/a", False, True),
    ]  # fmt: skip


async def test_damaged_mirror_is_fetched_again(
    etcd: EtcdProcess, tmp_path: pathlib.Path, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    store = await opened(settings(etcd.url, mirror=tmp_path / "mirror"))
    await store.write([put("/a")])
    await store.stop()
    (tmp_path / "mirror").write_bytes(b"damaged" * 5000)
    await store.start()
    assert await texts(store) == ["/a"]
    assert "fetching it again" in caplog.text


async def test_mirror_of_another_etcd_is_not_used(
    etcd: EtcdProcess, tmp_path: pathlib.Path, opened: Opened
) -> None:
    store = await opened(settings(etcd.url, mirror=tmp_path / "mirror"))
    await store.write([put("/a")])
    await store.stop()
    etcd.kill()
    other = EtcdProcess(tmp_path / "other", options=["--initial-cluster-token=other"])
    other.start()
    try:
        again = await opened(settings(other.url, mirror=tmp_path / "mirror"))
        assert await texts(again) == []
        await again.stop()
    finally:
        other.kill()
    etcd.start()


async def test_two_servers_on_one_mirror(
    etcd: EtcdProcess, tmp_path: pathlib.Path, opened: Opened
) -> None:
    await opened(settings(etcd.url, mirror=tmp_path / "mirror"))
    with pytest.raises(InUse):
        await opened(settings(etcd.url, mirror=tmp_path / "mirror"))


async def test_etcd_has_forgotten_what_was_missed(
    etcd: EtcdProcess, proxy: Proxy, opened: Opened
) -> None:
    """Away for longer than etcd remembers: the state is right, listeners hear what changed."""
    store = await opened(settings(proxy.url))
    other = await opened(settings(etcd.url))
    await store.write([put("/kept"), put("/changed", "old"), put("/deleted", "last")])
    old = store.revision
    events = listening(store)
    await proxy.cut()
    await other.write([put("/changed", "new"), delete("/deleted")])
    await other.write([put("/brief")])
    await other.write([delete("/brief")])
    await other.write([put("/added")])
    await other.compact(other.revision)
    await proxy.open()
    await until(lambda: store.get("/added") is not None)
    await until(lambda: store.health() is None)
    assert await texts(store) == ["/added", "new", "/kept"]
    assert sorted((e.key, e.created, e.deleted, e.previous_terms) for e in events) == [
        ("/added", True, False, ""),
        ("/changed", False, False, "\x1fold\x1f"),
        ("/deleted", False, True, "\x1flast\x1f"),
    ]
    assert [e.revision for e in events] == sorted(e.revision for e in events)
    assert all(old < e.revision <= store.revision for e in events)
    for stale in (old, events[0].revision):
        with pytest.raises(Compacted):
            await store.history("", stale, FOREVER, 10)
    (revision,) = await store.write([put("/more")])
    assert [e.revision for e in (await store.history("", store.compacted, FOREVER, 9)).events] == [
        revision
    ]


async def test_compaction_reaches_etcd(etcd: EtcdProcess, opened: Opened) -> None:
    first = await opened(settings(etcd.url))
    second = await opened(settings(etcd.url))
    for number in range(20):
        await first.write([put("/a", str(number))])
    await second.barrier()
    revision = first.revision
    await asyncio.gather(first.compact(revision), second.compact(second.revision))
    client = EtcdClient(settings(etcd.url))
    request = messages.RangeRequest(key=b"/a", revision=Epochs().etcd_revision_of(revision) - 1)
    with pytest.raises(Compacted):
        await client.range(request, 5)
    assert await texts(first) == await texts(second) == ["19"]
    await first.write([delete("/a")])
    graves = messages.RangeRequest(key=b"/registry/pykcp/graves/", range_end=b"/registry/pykcp/h")
    assert len((await client.range(graves, 5)).kvs) == 1
    await first.compact(first.revision)
    assert len((await client.range(graves, 5)).kvs) == 0
    await client.close()


async def test_deleted_by_somebody_else(
    etcd: EtcdProcess, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """Another program deletes one of our keys and writes something strange."""
    store = await opened(settings(etcd.url))
    await store.write([put("/a", "last")])
    events = listening(store)
    client = EtcdClient(settings(etcd.url))
    start = b"/registry/pykcp/data/"
    strange = messages.PutRequest(key=start + b"strange", value=b"{}")
    removal = messages.DeleteRangeRequest(key=start + b"a")
    await client.txn(
        messages.TxnRequest(
            success=[
                messages.RequestOp(request_put=strange),
                messages.RequestOp(request_delete_range=removal),
            ]
        ),
        5,
    )
    await until(lambda: bool(events))  # a barrier waits for writes of servers only
    assert [(e.key, e.deleted, e.value.split(b"@")[0]) for e in events] == [("/a", True, b"last")]
    assert store.get("/strange") is None
    assert "ignoring an unknown value in etcd" in caplog.text
    with pytest.raises(StoreError, match="choose another prefix"):
        await opened(settings(etcd.url))
    await client.close()


async def test_values_that_are_too_large(etcd: EtcdProcess, opened: Opened) -> None:
    store = await opened(settings(etcd.url))
    with pytest.raises(TooLarge):
        await store.write([PutKey("/big", Value(b"x" * (2 << 20), b""))])
    with pytest.raises(TooLarge):
        await store.write([put(f"/{number}") for number in range(300)])
    await store.write([put(f"/{number}") for number in range(120)])
    assert await store.count("/") == 120
    assert store.health() is None


async def test_no_etcd_at_start(tmp_path: pathlib.Path) -> None:
    (port,) = free_ports(1)
    store = EtcdStore(EtcdSettings((f"http://127.0.0.1:{port}",), start_seconds=0.3))
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=f"no etcd server answers .*{port}"):
        await store.start()
    assert time.monotonic() - started < 3
    assert store.health() == "the store is not running"


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("http://a:1", ("a:1", False)),
        ("https://a", ("a:2379", True)),
        ("a:1", ("a:1", False)),
        ("https://[::1]:5", ("[::1]:5", True)),
    ],
)
def test_addresses(server: str, expected: tuple[str, bool]) -> None:
    assert parse_server(server) == expected


@pytest.mark.parametrize("server", ["ftp://a:1", "http://", "unix:/socket"])
def test_not_addresses(server: str) -> None:
    with pytest.raises(StoreError, match="not the address of an etcd server"):
        parse_server(server)


async def test_failover(tmp_path: pathlib.Path, opened: Opened) -> None:
    """Three members; when the one in use dies or falls silent, another takes over."""
    names = ["etcd0", "etcd1", "etcd2"]
    cluster = dict(zip(names, free_ports(3), strict=True))
    members = [EtcdProcess(tmp_path / name, name=name, cluster=cluster) for name in names]
    try:
        for member in members:
            member.start(wait=False)
        for member in members:
            member.wait_until_listening()
        store = await opened(settings(*(member.url for member in members)))
        events = listening(store)
        await write_again(store, put("/a"))
        for number, member in enumerate(members[:2]):
            member.kill()
            await write_again(store, put(f"/after/{number}"))
            member.start()
        in_use = next(one for one in members if one.url == store._running_client().server)
        in_use.signal(signal.SIGSTOP)
        await write_again(store, put("/after/silence"))
        in_use.signal(signal.SIGCONT)
        await until(lambda: store.health() is None)
        assert await texts(store) == ["/a", "/after/0", "/after/1", "/after/silence"]
        revisions = [event.revision for event in events]
        assert revisions == sorted(set(revisions))
        await store.stop()
    finally:
        for member in members:
            member.kill()


def issue(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """A certificate authority and one certificate, for server and client."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("ca", "me")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    now = dt.datetime.now(dt.UTC)
    paths = {name: directory / name for name in ("ca", "cert", "key")}
    for name, key, file in zip(names, keys, ("ca", "cert"), strict=True):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=file == "ca", path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
        )
        certificate = builder.sign(keys[0], hashes.SHA256())
        paths[file].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths["key"].write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


async def test_tls(tmp_path: pathlib.Path, opened: Opened) -> None:
    paths = issue(tmp_path)
    etcd = EtcdProcess(tmp_path / "etcd", tls=paths)
    etcd.start()
    try:
        known = EtcdSettings(
            (etcd.url,),
            certfile=str(paths["cert"]), keyfile=str(paths["key"]), cafile=str(paths["ca"]),
        )  # fmt: skip
        store = await opened(known)
        await store.write([put("/a")])
        assert await texts(store) == ["/a"]
        await store.stop()
        nameless = EtcdSettings((etcd.url,), cafile=str(paths["ca"]), start_seconds=0.3)
        with pytest.raises(StoreUnavailable):
            await EtcdStore(nameless).start()
        missing = EtcdSettings((etcd.url,), cafile=str(tmp_path / "none"))
        with pytest.raises(StoreError, match="cannot read"):
            await EtcdStore(missing).start()
    finally:
        etcd.kill()


async def test_full_etcd(tmp_path: pathlib.Path, opened: Opened) -> None:
    etcdctl = shutil.which("etcdctl", path=str(pathlib.Path(find_etcd() or "").parent))
    if etcdctl is None:
        pytest.skip("needs etcdctl beside etcd, to give room again")
    etcd = EtcdProcess(tmp_path / "etcd", options=[f"--quota-backend-bytes={4 << 20}"])
    etcd.start()
    try:
        store = await opened(settings(etcd.url))
        with pytest.raises(StoreFull, match="space exceeded"):
            await fill(store)
        assert "space exceeded" in (store.health() or "")
        assert len(await texts(store)) == 1
        await store.compact(store.revision)
        for command in (["defrag"], ["alarm", "disarm"]):
            arguments = [etcdctl, f"--endpoints={etcd.url}", *command]
            await asyncio.to_thread(subprocess.run, arguments, check=True, capture_output=True)
        await store.write([put("/after")])
        assert store.health() is None
        await store.stop()
    finally:
        etcd.kill()


async def fill(store: EtcdStore) -> None:
    for _ in range(1000):
        await store.write([PutKey("/same", Value(b"@", b"x" * 100_000))])
