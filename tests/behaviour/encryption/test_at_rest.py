"""Encryption at rest on a running server: what lies on the disk, rotation, reload, lost keys."""

from __future__ import annotations

import base64
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pykcp.storage.encryption.testing import KmsPlugin
from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.apis import SCHEMAS, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

SECRETS = "/api/v1/namespaces/default/secrets"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
IDENTITY: dict[str, Any] = {"identity": {}}
RELOAD = "--encryption-provider-config-automatic-reload"


def keys(kind: str, *names: str) -> dict[str, Any]:
    return {
        kind: {
            "keys": [
                {"name": n, "secret": base64.b64encode(n.encode().ljust(32, b".")).decode()}
                for n in names
            ]
        }
    }


class Place:
    """A server's directory, its encryption configuration, and the server."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.config = directory / "encryption.yaml"
        self.server = ServerProcess(directory / ".kcp")

    def configure(self, *providers: dict[str, Any], resource: str = "secrets") -> None:
        rule = {"resources": [resource], "providers": list(providers)}
        document = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [rule],
        }
        self.config.write_text(yaml.safe_dump(document))

    def start(self, *flags: str) -> ServerProcess:
        self.server.flags = (f"--encryption-provider-config={self.config}", *flags)
        return self.server.start()

    def on_disk(self, text: str) -> list[str]:
        """The files of the store and of the cache's in which some text can be found."""
        stores = ("store", "cache")
        files = [f for f in self.server.root.iterdir() if f.name.startswith(stores)]
        assert files
        return [f.name for f in files if text.encode() in f.read_bytes()]


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    if place.server._process is not None:
        place.server.stop()


def secret(name: str, text: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "stringData": {"password": text},
        "type": "example.com/hidden-type",
    }


def encoded(text: str) -> str:
    """As the API shows the data of a secret: also this must not be found."""
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm", "secretbox"])
def test_nothing_of_a_secret_is_on_the_disk(place: Place, kind: str) -> None:
    place.configure(keys(kind, "one"))
    server = place.start()
    client = make_cluster(server, "here")
    made = client.post(SECRETS, secret("s", "hush-hush-hush", team="label-of-silence"))
    assert made.status == 201, made
    client.post(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"k": "open-as-ever"}})
    since = made.json["metadata"]["resourceVersion"]
    events = client.watch(SECRETS, resourceVersion=since, timeoutSeconds=1)
    patched = client.patch(f"{SECRETS}/s", {"stringData": {"password": "second-whisper"}})
    assert patched.status == 200, patched
    assert next(events)["object"]["data"] == {"password": encoded("second-whisper")}
    assert list(events) == []
    found = client.get(SECRETS, labelSelector="team=label-of-silence").json["items"]
    assert [i["data"]["password"] for i in found] == [encoded("second-whisper")]
    assert client.get(SECRETS, labelSelector="team=other").json["items"] == []
    by_type = client.get(SECRETS, fieldSelector="type=example.com/hidden-type").json["items"]
    assert len(by_type) == 1
    assert client.delete(f"{SECRETS}/s").status == 200
    for text in ("hush-hush-hush", "second-whisper"):
        assert place.on_disk(encoded(text)) == []
        assert place.on_disk(text) == []
    for text in ("label-of-silence", "hidden-type"):
        assert place.on_disk(text) == []
    assert place.on_disk("open-as-ever"), "the search finds what is not encrypted"
    assert place.on_disk(f"k8s:enc:{kind}:v1:one:")
    server.stop()
    assert place.on_disk(encoded("hush-hush-hush")) == []


def rewrite(client: TestClient, name: str) -> int:
    """`kubectl get … | kubectl replace -f -`, as upstream's guide says."""
    live = client.get(f"{SECRETS}/{name}").json
    written = client.put(f"{SECRETS}/{name}", live)
    assert written.status == 200, written
    return int(written.json["metadata"]["resourceVersion"])


def test_rotation_across_restarts(place: Place) -> None:
    place.configure(keys("aesgcm", "old"))
    server = place.start()
    client = make_cluster(server, "here")
    before = client.post(SECRETS, secret("s", "hush")).json["metadata"]["resourceVersion"]
    assert str(rewrite(client, "s")) == before, "an unchanged object is not written again"
    server.stop()

    place.configure(keys("aesgcm", "new", "old"))
    client = place.start().client(cluster="here")
    after = rewrite(client, "s")
    assert after > int(before), "unless it would be sealed with another key today"
    assert rewrite(client, "s") == after
    place.server.stop()

    place.configure(keys("aesgcm", "new"))
    client = place.start().client(cluster="here")
    assert client.get(f"{SECRETS}/s").json["data"] == {"password": encoded("hush")}


def test_lost_keys_are_told_and_lose_nothing(place: Place) -> None:
    place.configure(keys("secretbox", "right"))
    server = place.start()
    client = make_cluster(server, "here")
    client.post(SECRETS, secret("s", "hush"))
    client.post(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    server.stop()

    place.configure(keys("secretbox", "wrong"))
    client = place.start().client(cluster="here")
    why = "no matching key was found for the provided Secretbox transformer"
    for reply in (
        client.get(f"{SECRETS}/s"),
        client.get(SECRETS),
        client.patch(f"{SECRETS}/s", {"data": {"a": "YQ=="}}),
        client.delete(f"{SECRETS}/s"),
    ):
        assert reply.status == 500, reply
        assert reply.json["reason"] == "InternalError"
        assert reply.json["message"].startswith("Internal error occurred: unable to transform key")
        assert f" of secrets: {why}" in reply.json["message"]
    assert client.get(f"{CONFIGMAPS}/c").status == 200
    assert client.post(SECRETS, secret("other", "fine")).status == 201
    place.server.stop()

    place.server.flags = ()
    client = place.server.start().client(cluster="here")
    reply = client.get(f"{SECRETS}/s")
    assert reply.status == 500
    assert "identity transformer tried to read encrypted data" in reply.json["message"]
    assert client.get(f"{CONFIGMAPS}/c").status == 200
    place.server.stop()

    place.configure(keys("secretbox", "right", "wrong"))
    client = place.start().client(cluster="here")
    assert client.get(f"{SECRETS}/s").json["data"] == {"password": encoded("hush")}
    assert client.get(f"{SECRETS}/other").status == 200


def test_a_changed_file_takes_effect_without_a_restart(place: Place) -> None:
    place.configure(keys("aesgcm", "old"), IDENTITY)
    server = place.start(RELOAD)
    client = make_cluster(server, "here")
    client.post(SECRETS, secret("s", "hush"))
    place.config.write_text("kind: Broken")
    counter = "apiserver_encryption_config_controller_automatic_reloads_total"

    def reloads(status: str) -> bool:
        return f'{counter}{{status="{status}"}} 1' in server.client().get("/metrics").body.decode()

    eventually(lambda: reloads("failure"))
    assert client.get(f"{SECRETS}/s").status == 200
    place.configure(keys("aesgcm", "new"), keys("aesgcm", "old"), IDENTITY)
    eventually(lambda: reloads("success"))
    rewrite(client, "s")
    assert place.on_disk("k8s:enc:aesgcm:v1:new:")


def test_all_of_custom_and_builtin_resources(place: Place) -> None:
    place.configure(keys("aesgcm", "one"), resource="*.*")
    server = place.start()
    client = make_cluster(server, "here")
    client.post(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"k": "nobody-sees-this"}})
    assert client.get(f"{CONFIGMAPS}/c").json["data"] == {"k": "nobody-sees-this"}
    assert place.on_disk("nobody-sees-this") == []
    server.stop()
    client = place.start().client(cluster="here")
    assert client.get(f"{CONFIGMAPS}/c").json["data"] == {"k": "nobody-sees-this"}


def test_what_is_replicated_is_sealed_in_the_cache(place: Place) -> None:
    place.configure(keys("aesgcm", "one"), resource="*.*")
    client = make_cluster(place.start(), "here")
    described = schema(versions=[_version("nobody-sees-this")])
    assert client.post(SCHEMAS, described).status == 201

    def cached() -> Any:
        path = f"/services/cache/shards/root/clusters/here{SCHEMAS}/v1.cowboys.wild.west"
        return (r := place.server.client().get(path)).status == 200 and r.json

    assert eventually(cached)["spec"]["versions"][0]["schema"]["description"] == "nobody-sees-this"
    assert place.on_disk("nobody-sees-this") == []
    place.server.stop()
    place.configure(keys("aesgcm", "new", "one"), resource="*.*")
    place.start()
    eventually(cached)
    assert place.on_disk("nobody-sees-this") == []


def _version(description: str) -> dict[str, Any]:
    described = {"type": "object", "description": description}
    return {"name": "v1", "served": True, "storage": True, "schema": described}


def test_a_broken_configuration_is_told_at_start(place: Place) -> None:
    place.configure(keys("secretbox", "a"), resource="*")
    with pytest.raises(RuntimeError, match=r"encryption.yaml: .* to encrypt all the resources"):
        place.start()


def test_a_kms_plugin_keeps_the_key(place: Place, tmp_path: pathlib.Path) -> None:
    plugin = KmsPlugin(tmp_path / "kms.sock")
    provider = {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": plugin.endpoint}}
    place.configure(provider, resource="*.*")
    server = place.start()
    client = make_cluster(server, "here")
    assert client.post(SECRETS, secret("s", "hush-hush-hush")).status == 201
    assert place.on_disk(encoded("hush-hush-hush")) == []
    assert place.on_disk("k8s:enc:kms:v2:vault:")
    assert server.client().get("/livez/kms-providers").status == 200
    assert plugin.calls.count("Encrypt") == 1, "one data key for all values"
    server.stop()
    client = place.start().client(cluster="here")
    assert client.get(f"{SECRETS}/s").json["data"] == {"password": encoded("hush-hush-hush")}
    assert client.get(SECRETS, labelSelector="a=b").json["items"] == []
    place.server.stop()
    plugin.healthz = "no quorum"
    place.server.start_seconds = 6  # it never is
    with pytest.raises(RuntimeError, match="got unexpected healthz status: no quorum"):
        place.start()
    plugin.stop()


@pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)
def test_etcd_and_its_mirror_hold_nothing_plain(place: Place, tmp_path: pathlib.Path) -> None:
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        place.configure(keys("aesgcm", "one"))
        client = make_cluster(place.start(f"--etcd-servers={etcd.url}"), "here")
        assert client.post(SECRETS, secret("s", "hush-hush-hush", team="quiet-label")).status == 201
        client.post(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"k": "open-as-ever"}})
        assert client.get(SECRETS, labelSelector="team=quiet-label").json["items"]
        place.server.stop()
    finally:
        etcd.kill()
    files = [f for folder in (etcd.directory, place.server.root) for f in folder.rglob("*")]
    whole = b"".join(f.read_bytes() for f in files if f.is_file())
    assert b"open-as-ever" in whole
    for text in (encoded("hush-hush-hush"), "hush-hush-hush", "quiet-label", "hidden-type"):
        assert text.encode() not in whole
