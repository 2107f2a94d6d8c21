"""`kcp backup` and `kcp restore` of a server that serves."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.moving.journals import MAPS, Journal, journaled_maps
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace, post_workspace
from pykcp.types import Object


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def segments(backup: pathlib.Path) -> list[dict[str, Any]]:
    (member,) = json.loads((backup / "backup.json").read_text())["members"]
    found: list[dict[str, Any]] = member["segments"]
    return found


@contextmanager
def served(root: pathlib.Path, *flags: str) -> Iterator[ServerProcess]:
    """A server on a directory, new or restored."""
    process = ServerProcess(root, flags).start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def journaled(tmp_path: pathlib.Path) -> Iterator[tuple[ServerProcess, Journal]]:
    with served(tmp_path / "served") as shard:
        make_workspace(shard.client(cluster="root"), "team")
        with Journal(shard.client(cluster="root:team")) as journal:
            yield shard, journal


def restored(tmp_path: pathlib.Path, name: str, *words: str) -> pathlib.Path:
    root = tmp_path / name
    code, text = kcp("restore", f"--root-directory={root}", *words)
    assert code == 0, text
    assert "fsck: " in text
    assert "to go back" in text
    return root


def maps_of(place: pathlib.Path, *flags: str) -> dict[str, Object]:
    with served(place, *flags) as process:
        return journaled_maps(process.client(cluster="root:team"))


def test_a_backup_during_writes(
    journaled: tuple[ServerProcess, Journal], tmp_path: pathlib.Path
) -> None:
    shard, journal = journaled
    backup = tmp_path / "backup"
    words = ("backup", f"--root-directory={shard.root}", f"--to={backup}")
    journal.wait_for(150)
    for number in range(1, 4):
        code, text = kcp(*words)
        assert code == 0, text
        journal.wait_for(journal.count + 60 * number)
    journal.__exit__()
    points = segments(backup)
    assert [point["is_full"] for point in points] == [True, False, False]

    # the newest state, the middle of a segment, and a time
    newest = restored(tmp_path, "newest", f"--from={backup}")
    journal.check(points[-1]["until"], maps_of(newest))

    middle = (points[1]["since"] + points[1]["until"]) // 2
    place = restored(tmp_path, "middle", f"--from={backup}", f"--to-revision={middle}")
    journal.check(middle, maps_of(place))

    moment = datetime.fromtimestamp(points[1]["time"] + 0.001, UTC).isoformat()
    place = restored(tmp_path, "moment", f"--from={backup}", f"--to-time={moment}")
    journal.check(points[1]["until"], maps_of(place))


def test_credentials_and_watches_after_a_restore(tmp_path: pathlib.Path) -> None:
    root = tmp_path / ".kcp"
    with served(root) as shard:
        client = shard.client(cluster="root")
        make_workspace(client, "team")
        code, text = kcp("backup", f"--root-directory={root}", f"--to={tmp_path / 'b.tar'}")
        assert code == 0, text
        team = client.in_cluster("root:team")
        lost = team.post(MAPS, {"metadata": {"name": "lost"}}).json
        code, text = kcp("restore", f"--root-directory={root}", f"--from={tmp_path / 'b.tar'}")
        assert code == 1
        assert "is not empty: choose another --root-directory, or set --replace" in text
        words = ("restore", "--replace", f"--root-directory={root}", f"--from={tmp_path / 'b.tar'}")
        code, text = kcp(*words)
        assert code == 1
        assert "a server runs on" in text
        token = client.access.token
        shard.stop()
        code, text = kcp(*words)
        assert code == 0, text
        shard.start()
        # the same tokens and authorities, and an old revision is not taken for a new one
        assert shard.client().access.token == token
        assert team.get(f"{MAPS}/lost").status == 404
        revision = lost["metadata"]["resourceVersion"]
        gone = team.get(MAPS, watch="1", resourceVersion=revision, timeoutSeconds="5")
        assert b'"code":410' in gone.body.replace(b" ", b""), gone
        made = team.post(MAPS, {"metadata": {"name": "new"}}).json
        assert int(made["metadata"]["resourceVersion"]) > int(revision) + 1000
        # a backup cannot be continued by a store that went back
        code, text = kcp("backup", f"--root-directory={root}", f"--to={tmp_path / 'b.tar'}")
        assert code == 0, text
        assert "in full" in text
        code, text = kcp("backup", "show", f"--from={tmp_path / 'b.tar'}")
        assert code == 0, text
        assert text.endswith("complete\n")
        # and back again
        shard.stop()
        (aside,) = root.parent.glob(".kcp.before-*")
        root.rename(root.with_name("restored"))
        aside.rename(root)
        shard.start()
        assert team.get(f"{MAPS}/lost").status == 200


def test_encrypted_objects_stay_encrypted(tmp_path: pathlib.Path) -> None:
    key = base64.b64encode(b"k" * 32).decode()
    config = tmp_path / "encryption.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "EncryptionConfiguration",
                "resources": [
                    {
                        "resources": ["secrets"],
                        "providers": [{"aescbc": {"keys": [{"name": "k1", "secret": key}]}}],
                    }
                ],
            }
        )
    )
    flag = f"--encryption-provider-config={config}"
    secrets, backup = "/api/v1/namespaces/default/secrets", tmp_path / "backup"
    with served(tmp_path / "first", flag) as shard:
        make_workspace(shard.client(cluster="root"), "team")
        team = shard.client(cluster="root:team")
        body = {"metadata": {"name": "s"}, "stringData": {"a": "the hidden text"}}
        first = team.post(secrets, body).json
        team.patch(f"{secrets}/s", {"stringData": {"a": "changed"}})
        code, text = kcp("backup", flag, f"--root-directory={shard.root}", f"--to={backup}")
        assert code == 0, text
    revision = f"--to-revision={first['metadata']['resourceVersion']}"
    words = ("restore", f"--from={backup}", revision, f"--root-directory={tmp_path / 'second'}")
    code, text = kcp(*words)
    assert code == 1
    assert "is encrypted: set --encryption-provider-config" in text
    code, text = kcp(*words, flag)
    assert code == 0, text
    assert b"hidden" not in (tmp_path / "second" / "store.db").read_bytes()
    with served(tmp_path / "second", flag) as shard:
        found = shard.client(cluster="root:team").get(f"{secrets}/s").json
        assert base64.b64decode(found["data"]["a"]) == b"the hidden text"


@contextmanager
def store_flags(kind: str, folder: pathlib.Path) -> Iterator[tuple[str, ...]]:
    """Flags of a store: of SQLite, or of an etcd that runs meanwhile."""
    if kind == "sqlite":
        yield ()
        return
    if find_etcd() is None:
        pytest.skip("needs etcd")
    etcd = EtcdProcess(folder)
    etcd.start()
    try:
        yield (f"--etcd-servers={etcd.url}",)
    finally:
        etcd.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
def test_every_object_of_a_backup_during_many_writes(kind: str, tmp_path: pathlib.Path) -> None:
    """Objects and workspaces are written all the time; the backup is restored elsewhere.

    `bench/run backup` does the same at a measured rate.
    """
    backup = tmp_path / "backup"
    with (
        store_flags(kind, tmp_path / "etcd") as flags,
        store_flags(kind, tmp_path / "other") as others,
    ):
        with served(tmp_path / "first", *flags) as shard:
            make_workspace(shard.client(cluster="root"), "team")
            client = shard.client(cluster="root:team")
            with Journal(client, writers=6) as journal:
                made = _backups_with_workspaces(shard, backup, journal)
        root = tmp_path / "second"
        code, text = kcp("restore", f"--from={backup}", f"--root-directory={root}", *others)
        assert code == 0, text
        assert "fsck: consistent" in text
        until = segments(backup)[-1]["until"]
        with served(root, *others) as shard:
            team = shard.client(cluster="root:team")
            is_etcd = kind == "etcd"
            compared = journal.check(until, journaled_maps(team), renumbered=is_etcd)
            assert compared == 6 * 60
            for name, revision in made.items():
                # a workspace is some twenty objects, written at once: all of them or none
                default = team.in_cluster(f"root:team:{name}").get("/api/v1/namespaces/default")
                assert (default.status == 200) == (revision <= until), name
            assert team.post(MAPS, {"metadata": {"name": "new"}}).status == 201


def _backups_with_workspaces(
    shard: ServerProcess, backup: pathlib.Path, journal: Journal
) -> dict[str, int]:
    """Three backups, each during writes; the workspaces that were made meanwhile."""
    client, made = shard.client(cluster="root:team"), {}
    for number in range(3):
        journal.wait_for(journal.count + 1000)
        before = post_workspace(client, f"before-{number}")
        code, text = kcp("backup", f"--root-directory={shard.root}", f"--to={backup}")
        assert code == 0, text
        after = post_workspace(client, f"after-{number}")
        made |= {f"before-{number}": _revision(before), f"after-{number}": _revision(after)}
    journal.wait_for(journal.count + 200)
    return made


@pytest.mark.slow
@pytest.mark.skipif(find_etcd() is None, reason="needs etcd")
def test_from_etcd_to_another_etcd_and_to_a_file(tmp_path: pathlib.Path) -> None:
    etcd, other = EtcdProcess(tmp_path / "etcd"), EtcdProcess(tmp_path / "other")
    for one in (etcd, other):
        one.start()
    backup = tmp_path / "backup"
    try:
        with served(tmp_path / "first", f"--etcd-servers={etcd.url}") as shard:
            make_workspace(shard.client(cluster="root"), "team")
            team = shard.client(cluster="root:team")
            kept = team.post(MAPS, {"metadata": {"name": "w1"}, "data": {"x": "1"}}).json
            words = ("backup", f"--root-directory={shard.root}", f"--to={backup}")
            assert kcp(*words)[0] == 0
            team.delete(f"{MAPS}/w1")
            last = team.post(MAPS, {"metadata": {"name": "w2"}, "data": {"x": "2"}}).json
            assert kcp(*words)[0] == 0
        code, text = kcp(*words)
        assert code == 1
        assert "no server runs on" in text
        assert kcp(*words, f"--etcd-servers={etcd.url}")[0] == 0

        flag = f"--etcd-servers={other.url}"
        code, text = kcp("restore", f"--from={backup}", flag, f"--root-directory={tmp_path / 'r'}")
        assert code == 0, text
        assert "fsck: consistent" in text
        code, text = kcp("restore", f"--from={backup}", flag, f"--root-directory={tmp_path / 'q'}")
        assert code == 1
        assert "etcd already has a store below /registry/pykcp/: choose another" in text
        with served(tmp_path / "r", flag) as shard:
            team = shard.client(cluster="root:team")
            found = journaled_maps(team)
            assert list(found) == ["w2"]
            assert _revision(found["w2"]) > _revision(last)
            # stale revisions match nothing, not even the absence of an object
            stale = {"metadata": {"name": "w1", "resourceVersion": str(_revision(kept))}}
            assert team.put(f"{MAPS}/w1", stale).status in (404, 409)
            stale["metadata"]["name"] = "w2"
            assert team.put(f"{MAPS}/w2", stale).status == 409
            assert team.delete(f"{MAPS}/w2").status == 200

        point = segments(backup)[0]["until"]
        place = restored(tmp_path, "file", f"--from={backup}", f"--to-revision={point}")
        (found_object,) = maps_of(place).values()
        assert (_revision(found_object), found_object["data"]) == (_revision(kept), {"x": "1"})
    finally:
        etcd.kill()
        other.kill()


def test_bad_input(tmp_path: pathlib.Path) -> None:
    for words, text in (
        (["backup"], "--to must name the directory or the file of the backup"),
        (["backup", "--to=x", "--root-directory=/nonexistent"], "no shard found in /nonexistent"),
        (["restore", "--from=/nonexistent"], "there is no backup at /nonexistent"),
        (["restore"], "--from must name the directory or the file of the backup"),
        (["restore", "--from=x", "--to-time=soon"], "'soon' is not a time such as"),
        (["restore", "--from=x", "--to-time=2026-01-01", "--to-revision=1"], "exclude each other"),
    ):
        code, found = kcp(
            *words,
            *(() if "--root-directory" in str(words) else (f"--root-directory={tmp_path / 'r'}",)),
        )
        assert code == 1, words
        assert text in found
        assert "Traceback" not in found
