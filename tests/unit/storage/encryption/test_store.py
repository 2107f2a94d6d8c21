"""The encrypted store on real stores: what is seen above, and what lies below."""

from __future__ import annotations

import asyncio
import base64
import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import yaml

from pykcp.storage.encryption import EncryptedStore, EncryptionConfigError, Unreadable, parse_config
from pykcp.storage.encryption.config import EncryptionConfig
from pykcp.storage.encryption.reload import ConfigFollower
from pykcp.storage.encryption.store import guarded
from pykcp.storage.interface import Condition, Event, Query, Store, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.store import SQLiteSettings

FOREVER = 1 << 62
SECRETS = "core/secrets/root/default/"
IDENTITY: dict[str, Any] = {"identity": {}}


def keys(kind: str, *names: str) -> dict[str, Any]:
    """A provider with keys that differ by their names."""
    return {
        kind: {
            "keys": [
                {"name": n, "secret": base64.b64encode(n.encode().ljust(32, b".")).decode()}
                for n in names
            ]
        }
    }


def document(*rules: tuple[str, list[dict[str, Any]]]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": [n], "providers": given} for n, given in rules],
        }
    )


def config(*rules: tuple[str, list[dict[str, Any]]]) -> EncryptionConfig:
    return parse_config(document(*rules))


def value(text: str) -> Value:
    return Value(b'{"v":"', f'","data":"{text}"}}'.encode())


def shown(text: str, revision: int) -> bytes:
    return b'{"v":"%d","data":"%b"}' % (revision, text.encode())


def put(name: str, text: str, terms: str = "", **more: Any) -> PutKey:
    return PutKey(SECRETS + name, value(text), terms, **more)


@pytest.fixture(params=["memory", "sqlite"])
async def below(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> AsyncIterator[Store]:
    store: Store = (
        MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "store.db")
    )
    await store.start()
    yield store
    await store.stop()


PROVIDERS = [
    keys("aescbc", "a"),
    keys("aesgcm", "a"),
    keys("secretbox", "a"),
]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: next(iter(p)))
async def test_a_round_trip_leaves_nothing_plain_below(
    below: Store, provider: dict[str, Any]
) -> None:
    store = EncryptedStore(below, config(("secrets", [provider])))
    heard: list[Event] = []
    store.listen(heard.extend)
    terms = "\x1fl:team=hush\x1ff:type=Opaque\x1f"
    (first,) = await store.write([put("one", "plain-text", terms)])
    entry = store.get(SECRETS + "one")
    assert entry is not None
    assert (entry.value, entry.terms, entry.is_stale) == (shown("plain-text", first), terms, False)
    page = await store.list(Query(SECRETS))
    assert page.values == [shown("plain-text", first)]
    (second,) = await store.write([put("one", "other-text", "\x1fl:team=loud\x1f", expect=first)])
    (third,) = await store.write([DeleteKey(SECRETS + "one", value("last-text"), second)])
    events = (await store.history(SECRETS, 0, FOREVER, 10)).events
    assert [(e.value, e.terms, e.previous_terms) for e in events] == [
        (shown("plain-text", first), terms, ""),
        (shown("other-text", second), "\x1fl:team=loud\x1f", terms),
        (shown("last-text", third), "\x1fl:team=loud\x1f", "\x1fl:team=loud\x1f"),
    ]
    assert [e.value for e in heard] == [e.value for e in events]
    kind = next(iter(provider)).encode()
    for event in (await below.history("", 0, FOREVER, 10)).events:
        assert event.value.startswith(b"k8s:enc:%b:v1:a:" % kind)
        everything = event.value + event.terms.encode() + event.previous_terms.encode()
        for word in (b"plain-text", b"other-text", b"last-text", b"hush", b"loud", b"Opaque"):
            assert word not in everything


async def test_other_resources_pass_through_untouched(below: Store) -> None:
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    other = PutKey("core/configmaps/root/default/x", value("open"), "\x1fl:a=b\x1f")
    operations = [other]
    assert store._opening.sealed_operations(operations) is operations
    await store.write(operations)
    assert store.get(other.key) == below.get(other.key)
    (event,) = (await store.history("core/configmaps/", 0, FOREVER, 10)).events
    (same,) = (await store.history("core/configmaps/", 0, FOREVER, 10)).events
    assert event.value == same.value
    assert b"open" in event.value


@pytest.mark.parametrize(
    ("rule", "key", "is_sealed"),
    [
        ("secrets", "core/secrets/c/n/x", True),
        ("secrets", "core/secretsx/c/n/x", False),
        ("secrets", "example.com/secrets/c/n/x", False),
        ("widgets.example.com", "example.com/widgets/c/n/x", True),
        ("widgets.example.com", "example.com/widgets:abc123/c/n/x", True),
        ("widgets.example.com", "example.com/gadgets/c/n/x", False),
        ("*.example.com", "example.com/gadgets/c/n/x", True),
        ("*.example.com", "sub.example.com/gadgets/c/n/x", False),
        ("*.", "core/configmaps/c/n/x", True),
        ("*.", "apps/deployments/c/n/x", False),
        ("*.*", "apps/deployments/c/n/x", True),
    ],
)
async def test_rules_choose_resources(rule: str, key: str, is_sealed: bool) -> None:
    below = MemoryStore()
    store = EncryptedStore(below, config((rule, [keys("aesgcm", "a")])))
    await store.write([PutKey(key, value("text"))])
    entry = below.get(key)
    assert entry is not None
    assert entry.value.startswith(b"k8s:enc:aesgcm:v1:a:") is is_sealed


async def test_a_more_exact_rule_wins_if_it_comes_first() -> None:
    below = MemoryStore()
    rules = config(("configmaps", [IDENTITY]), ("*.", [keys("aesgcm", "a")]))
    store = EncryptedStore(below, rules)
    await store.write([PutKey("core/configmaps/c/n/x", value("text")), put("s", "text")])
    open_entry, sealed_entry = below.get("core/configmaps/c/n/x"), below.get(SECRETS + "s")
    assert open_entry is not None
    assert b"text" in open_entry.value
    assert sealed_entry is not None
    assert b"text" not in sealed_entry.value


def test_a_rule_behind_its_wildcard_is_refused() -> None:
    rules = config(("*.", [IDENTITY]), ("secrets", [IDENTITY]))
    with pytest.raises(
        EncryptionConfigError, match=r'resource "secrets" is masked by earlier rule "\*\."'
    ):
        EncryptedStore(MemoryStore(), rules)


async def test_rotation_by_rewriting(below: Store) -> None:
    old, new = keys("aescbc", "old"), keys("aescbc", "new", "old")
    first = EncryptedStore(below, config(("secrets", [old])))
    (revision,) = await first.write([put("x", "text")])
    both = EncryptedStore(below, config(("secrets", [new])))
    entry = both.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    assert entry.value == shown("text", revision)
    (rewritten,) = await both.write([put("x", "text")])
    entry = both.get(SECRETS + "x")
    assert entry is not None
    assert not entry.is_stale
    last = EncryptedStore(below, config(("secrets", [keys("aescbc", "new")])))
    entry = last.get(SECRETS + "x")
    assert entry is not None
    assert entry.value == shown("text", rewritten)


async def test_switching_on_and_off_again(below: Store) -> None:
    await below.write([put("x", "text", "\x1fl:a=b\x1f")])
    on = EncryptedStore(below, config(("secrets", [keys("secretbox", "a"), IDENTITY])))
    entry = on.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    assert entry.terms == "\x1fl:a=b\x1f"
    await on.write([put("x", "text")])
    off = EncryptedStore(below, config(("secrets", [IDENTITY, keys("secretbox", "a")])))
    entry = off.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    assert b"text" in entry.value
    await off.write([put("x", "text")])
    plain = below.get(SECRETS + "x")
    assert plain is not None
    assert b"text" in plain.value
    assert guarded(below) is below


NO_KEY = "no matching key was found for the provided Secretbox transformer"


@pytest.mark.parametrize(
    ("providers", "why"),
    [
        ([keys("secretbox", "other")], NO_KEY),
        ([keys("aescbc", "a")], "no matching prefix found"),
        ([IDENTITY], "identity transformer tried to read encrypted data"),
    ],
)
async def test_missing_keys_are_told_and_lose_nothing(
    below: Store, providers: list[dict[str, Any]], why: str
) -> None:
    right = EncryptedStore(below, config(("secrets", [keys("secretbox", "a")])))
    (revision,) = await right.write([put("x", "text", "\x1fl:a=b\x1f")])
    await right.write([PutKey("core/configmaps/root/default/x", value("open"))])
    wrong = EncryptedStore(below, config(("secrets", providers)))
    expected = f'unable to transform key "{SECRETS}x" of secrets: {why}'
    with pytest.raises(Unreadable) as caught:
        wrong.get(SECRETS + "x")
    assert str(caught.value) == expected
    for query in (Query(SECRETS), Query(SECRETS, where=(Condition(("\x1fl:a=b\x1f",)),))):
        with pytest.raises(Unreadable, match="of secrets: "):
            await wrong.list(query)
    with pytest.raises(Unreadable, match="of secrets: "):
        await wrong.history(SECRETS, 0, FOREVER, 10)
    assert len((await wrong.list(Query("core/configmaps/"))).values) == 1
    entry = right.get(SECRETS + "x")
    assert entry is not None
    assert entry.value == shown("text", revision)


async def test_a_store_with_sealed_values_is_guarded_without_configuration(below: Store) -> None:
    right = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    assert guarded(below) is below
    await right.write([put("x", "text")])
    guard = guarded(below)
    with pytest.raises(Unreadable, match="of secrets: identity transformer tried"):
        guard.get(SECRETS + "x")
    assert guarded(right) is right


async def test_plain_values_are_refused_unless_identity_is_listed(below: Store) -> None:
    await below.write([put("x", "forged")])
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    with pytest.raises(Unreadable, match="no matching prefix found"):
        store.get(SECRETS + "x")
    with pytest.raises(Unreadable, match="no matching prefix found"):
        await store.list(Query(SECRETS))


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: next(iter(p)))
async def test_a_sealed_value_that_was_moved_is_refused(
    below: Store, provider: dict[str, Any]
) -> None:
    store = EncryptedStore(below, config(("secrets", [provider])))
    await store.write([put("mine", "text")])
    stolen = below.get(SECRETS + "mine")
    assert stolen is not None
    head, _, _ = stolen.value.rpartition(b"@")
    elsewhere = "core/secrets/thief/default/yours"
    await below.write([PutKey(elsewhere, Value(head + b"@", b""))])
    with pytest.raises(Unreadable, match="was moved here"):
        store.get(elsewhere)
    with pytest.raises(Unreadable, match="was moved here"):
        await store.list(Query("core/secrets/thief/"))
    await below.write([PutKey(SECRETS + "zz", Value(head + b"@", b""))])
    with pytest.raises(Unreadable, match="was moved here"):
        await store.list(Query(SECRETS))


async def test_filters_and_pages_see_plain_terms_of_both_kinds(below: Store) -> None:
    await below.write([put("a", "1", "\x1fl:app=web\x1f"), put("b", "2", "\x1fl:app=db\x1f")])
    providers = [keys("aesgcm", "a"), IDENTITY]
    store = EncryptedStore(below, config(("secrets", providers)))
    for name, app in (("c", "web"), ("d", "db"), ("e", "web")):
        await store.write([put(name, name, f"\x1fl:app={app}\x1f")])
    where = (Condition(("\x1fl:app=web\x1f",)),)

    async def names(query: Query) -> list[bytes]:
        return [v[-3:-2] for v in (await store.list(query)).values]

    assert await names(Query(SECRETS, where=where)) == [b"1", b"c", b"e"]
    assert await names(Query(SECRETS, where=(Condition(where[0].any_of, negated=True),))) == [
        b"2",
        b"d",
    ]
    assert await names(Query(SECRETS, residual=lambda t: "db" in t)) == [b"2", b"d"]
    page = await store.list(Query(SECRETS, limit=2, where=where))
    assert page.next_after == SECRETS + "c"
    assert await names(Query(SECRETS, after=page.next_after, limit=2, where=where)) == [b"e"]
    everything = await store.list(Query(SECRETS, limit=2, count_remaining=True))
    assert everything.remaining == 3


async def test_long_lists_and_indexes(below: Store) -> None:
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    count = 450
    await store.write([put(f"{i:04}", str(i), indexes=("owner:1",)) for i in range(count)])
    page = await store.list(Query(SECRETS))
    assert len(page.values) == count == await store.count(SECRETS)
    assert store.lookup("owner:1", limit=2) == [SECRETS + "0000", SECRETS + "0001"]


async def test_an_event_is_opened_once_for_all(below: Store) -> None:
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    first: list[Event] = []
    second: list[Event] = []
    store.listen(first.extend)
    store.listen(second.extend)
    await store.write([put("x", "text")])
    assert first[0] is second[0]
    if isinstance(below, SQLiteStore):  # its history is the same recent events
        assert (await store.history(SECRETS, 0, FOREVER, 1)).events[0] is first[0]


async def test_an_unreadable_event_ends_watches_instead_of_vanishing() -> None:
    below = MemoryStore()
    ours = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a")])))
    theirs = EncryptedStore(below, config(("secrets", [keys("aesgcm", "b")])))
    told: list[str] = []
    heard: list[Sequence[Event]] = []
    ours.on_unreadable(told.append)
    ours.listen(heard.append)
    await theirs.write([put("x", "text"), PutKey("core/configmaps/c/n/x", value("open"))])
    assert told == [SECRETS + "x"]
    assert [e.key for e in heard[0]] == ["core/configmaps/c/n/x"]


async def test_a_changed_file_is_taken_over_and_a_broken_one_is_not(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(document(("secrets", [keys("aesgcm", "a")])))
    below = MemoryStore()
    store = EncryptedStore(below, parse_config(path.read_text()))
    follower = ConfigFollower(path, store)
    await store.write([put("x", "text")])
    assert not await follower.look()
    path.write_text("kind: Nonsense")
    assert not await follower.look()
    assert store.get(SECRETS + "x") is not None
    path.write_text(document(("secrets", [keys("aesgcm", "b", "a")])))
    assert await follower.look()
    entry = store.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    await store.write([put("x", "text")])
    sealed = below.get(SECRETS + "x")
    assert sealed is not None
    assert sealed.value.startswith(b"k8s:enc:aesgcm:v1:b:")
    outcomes = dict(follower.metrics[0].values)
    assert outcomes == {("failure",): 1, ("success",): 1}


def kms(plugin: Any, **more: Any) -> dict[str, Any]:
    content = {"apiVersion": "v2", "name": "vault", "endpoint": plugin.endpoint, **more}
    return {"kms": content}


async def running(below: Store, *providers: dict[str, Any]) -> EncryptedStore:
    store = EncryptedStore(below, config(("secrets", list(providers))))
    await store.start()
    return store


async def test_kms_seals_with_one_data_key_and_opens_it_later(plugin: Any) -> None:
    below = MemoryStore()
    store = await running(below, kms(plugin))
    (revision, _) = await store.write([put("x", "text", "\x1fl:a=b\x1f"), put("y", "text")])
    assert plugin.calls == ["Status", "Encrypt"], "one call for all values"
    sealed = below.get(SECRETS + "x")
    assert sealed is not None
    assert sealed.value.startswith(b"k8s:enc:kms:v2:vault:")
    assert b"text" not in sealed.value
    assert store.providers_health() is None
    await store.stop()
    again = await running(below, kms(plugin))
    entry = again.get(SECRETS + "x")
    assert entry is not None
    assert entry.value == shown("text", revision)
    where = (Condition(("\x1fl:a=b\x1f",)),)
    assert len((await again.list(Query(SECRETS, where=where))).values) == 1
    assert plugin.calls.count("Decrypt") == 1
    await again.stop()


async def test_kms_lists_and_watches_wait_for_the_plugin(plugin: Any) -> None:
    below = MemoryStore()
    store = await running(below, kms(plugin))
    await store.write([put("x", "text", "\x1fl:a=b\x1f")])
    await store.stop()
    again = await running(below, kms(plugin))
    provider = again._transformers.kms[0]
    provider._seeds.clear()  # as if it were one of too many to fetch at start
    provider._tails.clear()
    plugin.may_decrypt.clear()
    where = (Condition(("\x1fl:a=b\x1f",)),)
    listing = asyncio.ensure_future(again.list(Query(SECRETS, where=where)))
    history = asyncio.ensure_future(again.history(SECRETS, 0, FOREVER, 10))
    with pytest.raises(Exception, match="being fetched from the KMS plugin"):
        again.get(SECRETS + "x")
    with pytest.raises(Exception, match="still being fetched"):
        again.get(SECRETS + "x")
    assert not listing.done()
    assert not history.done()
    plugin.may_decrypt.set()
    assert len((await listing).values) == 1
    assert len((await history).events) == 1
    assert again.get(SECRETS + "x") is not None
    await again.stop()


async def test_kms_key_rotation_makes_values_stale(plugin: Any) -> None:
    below = MemoryStore()
    store = await running(below, kms(plugin))
    await store.write([put("x", "text")])
    plugin.key_id = "key-b"
    await asyncio.to_thread(store._transformers.kms[0].refresh)
    entry = store.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    await store.write([put("x", "text")])
    entry = store.get(SECRETS + "x")
    assert entry is not None
    assert not entry.is_stale
    await store.stop()


async def test_kms_failures_are_told(plugin: Any) -> None:
    below = MemoryStore()
    store = await running(below, kms(plugin))
    await store.write([put("x", "text")])
    await store.stop()
    plugin.refused_keys.add("key-a")
    plugin.healthz = "sealed"
    again = await running(below, kms(plugin))
    assert again.providers_health() == "vault: got unexpected healthz status: sealed"
    with pytest.raises(Unreadable, match="PERMISSION_DENIED: this key was destroyed"):
        again.get(SECRETS + "x")
    with pytest.raises(Exception, match="has no data key"):
        await again.write([put("y", "text")])
    assert below.get(SECRETS + "y") is None
    await again.stop()


async def test_a_plugin_that_is_not_there_is_no_reason_to_change_over(
    plugin: Any, tmp_path: pathlib.Path
) -> None:
    store = await running(MemoryStore(), keys("aesgcm", "a"))
    missing = {"kms": {"apiVersion": "v2", "name": "gone", "endpoint": f"unix://{tmp_path}/none"}}
    with pytest.raises(Unreadable, match="KMS providers are not ready: gone: "):
        await store.configure(config(("secrets", [missing])))
    await store.write([put("x", "text")])
    await store.configure(config(("secrets", [kms(plugin), keys("aesgcm", "a")])))
    entry = store.get(SECRETS + "x")
    assert entry is not None
    assert entry.is_stale
    await store.stop()


def files_of(folder: pathlib.Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("store.db*"))


async def test_nothing_plain_stays_in_the_file_after_switching_on(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store.db"
    before = SQLiteStore(path)
    await before.start()
    await before.write(
        [put(f"{i:03}", f"once-plain-{i}" * 20, "\x1fl:a=label-text\x1f") for i in range(300)]
    )
    await before.stop()
    assert b"once-plain" in path.read_bytes()
    below = SQLiteStore(path, settings=SQLiteSettings(erases=True))
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "a"), IDENTITY])))
    await store.start()
    for i in range(300):
        await store.write([put(f"{i:03}", f"once-plain-{i}" * 20, "\x1fl:a=label-text\x1f")])
    await store.compact(store.revision)
    await store.stop()
    everything = files_of(tmp_path)
    assert b"once-plain" not in everything
    assert b"label-text" not in everything
    await store.start()
    assert len((await store.list(Query(SECRETS))).values) == 300
    await store.stop()


async def test_data_keys_of_earlier_processes_are_fetched_at_the_start(plugin: Any) -> None:
    below = MemoryStore()
    for name in ("x", "y"):
        store = await running(below, kms(plugin))
        await store.write([put(name, "text")])
        await store.stop()
    plugin.calls.clear()
    again = await running(below, kms(plugin))
    assert plugin.calls.count("Decrypt") == 2
    plugin.may_decrypt.clear()
    assert again.get(SECRETS + "x") is not None
    assert again.get(SECRETS + "y") is not None
    await again.stop()


async def test_what_is_in_the_trash_is_sealed_as_it_was() -> None:
    below = MemoryStore()
    store = EncryptedStore(below, config(("secrets", [keys("aesgcm", "k1")])))
    sealed, plain = "~core/secrets/system:trash/root/default/a", "~core/configmaps/x/root//a"
    await store.write([PutKey(sealed, value("hidden")), PutKey(plain, value("open"))])
    raw = below.get(sealed)
    assert raw is not None
    assert b"hidden" not in raw.value
    assert b"open" in (below.get(plain) or raw).value
    shown_entry = store.get(sealed)
    assert shown_entry is not None
    assert b"hidden" in shown_entry.value
