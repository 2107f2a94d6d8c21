"""`kill -9` in the middle of creating and deleting workspaces: each is complete afterwards, or gone.

Workers make and delete workspaces, flat and in trees, of a type that is provisioned at once and of one
whose bindings take several writes, and put something into them. The server is killed in the
middle, started again, and what it holds then is compared with what was acknowledged.
"""

from __future__ import annotations

import pathlib
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pykcp.testing.apis import EXPORTS, RESOURCE, SCHEMAS, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.programs import fsck
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import WORKSPACES

TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MAPS = "/api/v1/namespaces/default/configmaps"
CONTENT = (
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    "/api/v1/configmaps",
    BINDINGS,
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
)
WORKERS = 4
DEEPEST = 5
SETTLE_SECONDS = 120.0
STUCK_SECONDS = 60.0
"""If nothing changes for so long, nothing will."""


def body_of(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass
class Worker:
    """Makes and deletes workspaces below one of its own, and remembers what was acknowledged."""

    top: str
    client: TestClient
    known: dict[str, dict[str, bool]] = field(default_factory=dict)
    """Workspaces by path, with the ConfigMaps in them; true: acknowledged, false: perhaps there."""
    gone: set[str] = field(default_factory=set)
    """Paths whose deletion was acknowledged: with all below they must go."""
    doubtful: set[str] = field(default_factory=set)
    """Paths whose creation or deletion was not answered."""
    made: int = 0
    deleted: int = 0

    def run(self, stopping: threading.Event, seed: str, deletes: float) -> None:
        pick = random.Random(seed)
        while not stopping.is_set():
            try:
                self._one(pick, deletes)
            except OSError:
                return  # the server is gone

    def _one(self, pick: random.Random, deletes: float) -> None:
        choice = pick.random()
        living = [path for path in self.known if path not in self.doubtful]
        if living and choice < deletes:
            self._delete(pick.choice(living))
        elif living and choice < deletes + 0.15:
            self._fill(pick.choice(living), f"m{pick.randint(0, 9)}")
        elif living and choice < deletes + 0.55:
            parents = [path for path in living if path.count(":") < DEEPEST]
            self._create(pick, pick.choice(parents or [self.top]))
        else:
            self._create(pick, self.top)

    def _create(self, pick: random.Random, parent: str) -> None:
        path = f"{parent}:w{pick.randint(0, 3000)}"
        if path in self.known or path in self.gone:
            return
        kind = pick.choice(("universal", "universal", "claiming"))
        body = body_of(
            "Workspace", path.rpartition(":")[2], {"type": {"name": kind, "path": "root"}}
        )
        self.doubtful.add(path)
        self.known[path] = {}
        reply = self.client.in_cluster(parent).post(WORKSPACES, body)
        if reply.status >= 500:
            return
        self.doubtful.discard(path)
        if reply.status == 201:
            self.made += 1
            return
        del self.known[path]
        assert reply.status in (403, 404), reply  # its parent has no logical cluster yet

    def _fill(self, path: str, name: str) -> None:
        contents = self.known[path]
        contents.setdefault(name, False)
        reply = self.client.in_cluster(path).post(MAPS, {"metadata": {"name": name}})
        if reply.status in (201, 409):
            contents[name] = True
        else:
            assert reply.status in (403, 404) or reply.status >= 500, reply

    def _delete(self, path: str) -> None:
        parent, _, name = path.rpartition(":")
        below = self.below(path)
        self.doubtful |= below
        reply = self.client.in_cluster(parent).delete(f"{WORKSPACES}/{name}")
        if reply.status >= 500:
            return
        assert reply.status == 200, reply
        self.deleted += 1
        self.gone.add(path)
        for one in below:
            del self.known[one]
        self.doubtful -= below

    def below(self, top: str) -> set[str]:
        return {path for path in self.known if path == top or path.startswith(f"{top}:")}

    def check(self, found: dict[str, set[str]]) -> None:
        """`found`: the workspaces below our own, with the ConfigMaps in them."""
        for path in found:
            assert not any(path == g or path.startswith(f"{g}:") for g in self.gone), path
            assert path in self.known, f"{path} was never asked for"
        for path, contents in self.known.items():
            if path not in found:
                assert path in self.doubtful, f"{path} is lost"
                continue
            missing = {name for name, acknowledged in contents.items() if acknowledged}
            assert missing <= found[path], f"{path} has lost {missing - found[path]}"
        self.known = {path: dict.fromkeys(names, True) for path, names in found.items()}
        self.gone.clear()
        self.doubtful.clear()


class World:
    """What a server holds, read over all logical clusters at once."""

    def __init__(self, process: ServerProcess) -> None:
        self._star = process.client(cluster="*")
        (root,) = (
            b["status"]["boundResources"]
            for b in process.client(cluster="root").get(BINDINGS).json["items"]
            if b["spec"]["reference"]["export"]["name"] == "tenancy.kcp.io"
        )
        (identity,) = {r["schema"]["identityHash"] for r in root if r["resource"] == "workspaces"}
        self._workspaces = f"{WORKSPACES}:{identity}"

    def _all(self, path: str) -> Iterator[dict[str, Any]]:
        query: dict[str, str] = {"limit": "2000"}
        while True:
            reply = self._star.get(path, **query)
            assert reply.status == 200, reply
            yield from reply.json["items"]
            more = reply.json["metadata"].get("continue")
            if not more:
                return
            query["continue"] = more

    def unfinished(self) -> list[dict[str, Any]]:
        return [one for one in self._all(self._workspaces) if not is_settled(one)]

    def clusters(self) -> dict[str, str]:
        """Logical clusters of workspaces, by path; each Ready, and known to its workspace."""
        workspaces = {w["metadata"]["uid"]: w for w in self._all(self._workspaces)}
        found = {}
        for cluster in self._all(LOGICAL_CLUSTERS):
            owner = (cluster.get("spec") or {}).get("owner")
            if not owner or owner["resource"] != "workspaces":
                continue
            annotations = cluster["metadata"]["annotations"]
            name = annotations["kcp.io/cluster"]
            workspace = workspaces.pop(owner["uid"], None)
            assert workspace is not None, f"belongs to nobody: {cluster}"
            assert is_settled(cluster), f"not finished: {cluster} of {workspace}"
            assert workspace["spec"]["cluster"] == name
            found[annotations["kcp.io/path"]] = name
        assert not workspaces, f"without logical clusters: {workspaces}"
        return found

    def contents(self) -> dict[str, Counter[str]]:
        """By logical cluster: what is in it, with names that differ from one to the next left out.

        Nothing while an APIBinding is not bound yet.
        """
        found: dict[str, Counter[str]] = {}
        for kind in CONTENT:
            for item in self._all(kind):
                metadata = item["metadata"]
                what = f"{metadata.get('namespace', '')}/{metadata['name']}"
                if kind == BINDINGS:
                    what = item["spec"]["reference"]["export"]["name"]
                    if item["status"]["phase"] != "Bound":
                        return {}
                place = metadata["annotations"]["kcp.io/cluster"]
                found.setdefault(place, Counter())[f"{kind.rpartition('/')[2]} {what}"] += 1
        return found


def is_settled(obj: dict[str, Any]) -> bool:
    is_ready = (obj.get("status") or {}).get("phase") == "Ready"
    return is_ready and not obj["metadata"].get("deletionTimestamp")


def versions(objects: list[dict[str, Any]]) -> set[str]:
    return {obj["metadata"]["resourceVersion"] for obj in objects}


def maps_of(content: Iterable[str]) -> set[str]:
    prefix = "configmaps default/m"
    return {what.rpartition("/")[2] for what in content if what.startswith(prefix)}


class Storm:
    """Workers on a server that is killed again and again."""

    def __init__(self, process: ServerProcess, seed: int) -> None:
        self._process, self._seed = process, seed
        self._pick = random.Random(seed)
        root = process.client(cluster="root")
        self._offer(root)
        self.workers = [Worker(f"root:top{n}", root) for n in range(WORKERS)]
        for path in (*(worker.top for worker in self.workers), "root:model", "root:modelclaiming"):
            kind = "claiming" if path.endswith("claiming") else "universal"
            spec = {"type": {"name": kind, "path": "root"}}
            made = root.post(WORKSPACES, body_of("Workspace", path.rpartition(":")[2], spec))
            assert made.status == 201, made
        self.world = World(process)
        self.settle()
        found, contents = self.world.clusters(), eventually(self.world.contents)
        self._models = [contents[found[path]] for path in ("root:model", "root:modelclaiming")]
        assert self._models[0] != self._models[1]

    @staticmethod
    def _offer(root: TestClient) -> None:
        """An export that claims something: binding it takes more than provisioning a workspace."""
        claims = [{"group": "", "resource": "configmaps", "verbs": ["*"]}]
        assert root.post(SCHEMAS, schema()).status == 201
        body = export("cowboys", resources=[RESOURCE], permissionClaims=claims)
        assert root.post(EXPORTS, body).status == 201
        spec = {
            "extend": {"with": [{"name": "universal", "path": "root"}]},
            "defaultAPIBindings": [{"path": "root", "export": "cowboys"}],
        }
        made = root.post(TYPES, body_of("WorkspaceType", "claiming", spec))
        assert made.status == 201, made

    def settle(self) -> None:
        """Wait until nothing is unfinished, for as long as it becomes less or changes."""
        left = self.world.unfinished()
        while left:
            before = versions(left)

            def moved(before: set[str] = before) -> bool:
                nonlocal left
                left = self.world.unfinished()
                return not left or versions(left) != before

            try:
                eventually(moved, STUCK_SECONDS)
            except AssertionError:
                raise AssertionError(f"{len(left)} are stuck: {left[:3]}") from None

    def round(self, number: int, requests: int, deletes: float) -> None:
        """Workers at work, a kill after about that many requests, a start, a comparison."""
        before = self.made + self.deleted
        stopping = threading.Event()
        threads = []
        for worker in self.workers:
            worker.client = self._process.client()
            words = (stopping, f"{self._seed}/{number}/{worker.top}", deletes)
            threads.append(threading.Thread(target=worker.run, args=words))
        for thread in threads:
            thread.start()
        wanted = before + self._pick.randint(requests // 2, requests)
        eventually(lambda: self.made + self.deleted >= wanted, SETTLE_SECONDS)
        stopping.wait(self._pick.uniform(0, 0.1))  # nothing sets it: the moment of the kill
        self._process.kill()
        for thread in threads:
            thread.join()
        self._process.start()
        self.world = World(self._process)
        self.check()

    def fell(self, kills: int) -> None:
        """Delete all of it from the top, and kill the server while it is at it."""
        root = self._process.client(cluster="root")
        for worker in self.workers:
            assert root.delete(f"{WORKSPACES}/{worker.top.partition(':')[2]}").status == 200
            worker.gone.add(worker.top)
            worker.known.clear()
        for _ in range(kills):
            threading.Event().wait(self._pick.uniform(0.05, 0.5))  # the moment of the kill
            self._process.kill()
            self._process.start()
        self.world = World(self._process)
        self.check()
        assert set(self.world.clusters()) == {"root:model", "root:modelclaiming"}

    @property
    def made(self) -> int:
        return sum(worker.made for worker in self.workers)

    @property
    def deleted(self) -> int:
        return sum(worker.deleted for worker in self.workers)

    def check(self) -> None:
        self.settle()
        found, contents = self.world.clusters(), eventually(self.world.contents)
        known = {*found.values(), *CLUSTERS_OF_KCP}
        orphans = {place for place in contents if place not in known}
        assert not orphans, f"orphaned: { {o: contents[o] for o in orphans} }"
        for path, cluster in found.items():
            content = contents.get(cluster, Counter())
            own = Counter({k: n for k, n in content.items() if not k.startswith(_OWN)})
            assert own in self._models, f"{path} ({cluster}) is not complete: {own}"
        for worker in self.workers:
            worker.check(
                {
                    path: maps_of(contents[cluster])
                    for path, cluster in found.items()
                    if path.startswith(f"{worker.top}:")
                }
            )
        code, text = fsck(self._process)
        assert code == 0, text
        assert "(0 unfinished)" in text, text
        assert "Traceback" not in self._process.log()


_OWN = "configmaps default/m"
CLUSTERS_OF_KCP = (
    "root",
    "system:admin",
    "system:bound-crds",
    "system:shard",
    "system:system-crds",
)


@pytest.fixture
def process(tmp_path: pathlib.Path) -> Iterator[ServerProcess]:
    with server(directory=tmp_path) as process:
        yield process


def test_workspaces_through_kills(process: ServerProcess) -> None:
    storm = Storm(process, 1)
    for number, (requests, deletes) in enumerate(((60, 0.05), (40, 0.2))):
        storm.round(number, requests, deletes)
    storm.fell(2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousands_of_workspaces_through_kills(process: ServerProcess) -> None:
    """Mostly made, then made and deleted, then deleted from the top."""
    storm = Storm(process, 2)
    for number in range(12):
        storm.round(number, 600, 0.03 if number < 8 else 0.2)
    assert storm.made > 3000
    storm.fell(8)
