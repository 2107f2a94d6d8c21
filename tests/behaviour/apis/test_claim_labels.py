"""Objects carry the labels of the claims that their workspace accepts, and no others."""

from __future__ import annotations

from pykcp.machinery.kcp.hashes import claim_label_key, claim_label_value
from pykcp.testing.apis import BINDINGS, EXPORTS, MAPS, accepted, binding, export
from pykcp.testing.client import TestClient

CLAIM = "claimed.internal.apis.kcp.io/"


def _accept(cluster: TestClient, *claims: object) -> str:
    """The label by which the export finds what is claimed."""
    asked = [{"resource": "configmaps", "verbs": ["*"]}]
    cluster.post(EXPORTS, export("e", permissionClaims=asked))
    assert cluster.post(BINDINGS, binding("b", "e", claims=list(claims))).status == 201
    return claim_label_key(cluster.prefix.rpartition("/")[2], "e")


def _labels(cluster: TestClient, name: str, **labels: str) -> dict[str, str]:
    made = cluster.post(MAPS, {"metadata": {"name": name, "labels": labels}})
    assert made.status == 201, made
    found: dict[str, str] = made.json["metadata"].get("labels", {})
    return found


def test_what_is_claimed_is_labelled(cluster: TestClient) -> None:
    key = _accept(cluster, accepted("configmaps"))
    value = claim_label_value("", "configmaps")
    assert _labels(cluster, "a", mine="1") == {"mine": "1", key: value}
    cleared = cluster.patch(f"{MAPS}/a", {"metadata": {"labels": None}}).json
    assert cleared["metadata"]["labels"] == {key: value}
    secret = cluster.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}).json
    assert "labels" not in secret["metadata"]


def test_labels_follow_the_selector(cluster: TestClient) -> None:
    key = _accept(cluster, accepted("configmaps", selector={"matchLabels": {"shared": "yes"}}))
    assert key not in _labels(cluster, "a")
    shared = cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"shared": "yes"}}}).json
    assert key in shared["metadata"]["labels"]
    kept = cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"shared": "no"}}}).json
    assert kept["metadata"]["labels"] == {"shared": "no"}


def test_labels_go_with_the_claim(cluster: TestClient) -> None:
    key = _accept(cluster, accepted("configmaps"))
    assert key in _labels(cluster, "a")
    rejected = [{**accepted("configmaps"), "state": "Rejected"}]
    changed = cluster.patch(f"{BINDINGS}/b", {"spec": {"permissionClaims": rejected}})
    assert changed.status == 200, changed
    touched = cluster.patch(f"{MAPS}/a", {}).json
    assert "labels" not in touched["metadata"]


def test_nobody_makes_up_a_claim(cluster: TestClient) -> None:
    assert _labels(cluster, "a", **{f"{CLAIM}abc": "x", "k": "v"}) == {"k": "v"}


def test_events_of_both_groups_are_claimed_at_once(cluster: TestClient) -> None:
    key = _accept(cluster, accepted("events"))
    regarding = {"kind": "ConfigMap", "namespace": "default", "name": "x"}
    event = {
        "metadata": {"name": "e"},
        "regarding": regarding,
        "reason": "Made",
        "action": "Make",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c",
        "reportingInstance": "c-1",
    }
    made = cluster.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert made.status == 201, made
    assert made.json["metadata"]["labels"] == {key: claim_label_value("", "events")}
