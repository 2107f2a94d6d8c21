"""What kcp's operator gets wrong and this one does not; each test states the difference."""

from __future__ import annotations

import json
import pathlib
import re
import time
from dataclasses import replace

import pytest
import yaml
from tests.unit.programs.operator.objects import (
    NOW,
    again,
    configured,
    front_proxy,
    kubeconfig,
    made,
    only,
    root_shard,
    secret,
    shard,
)

from pykcp.auth.certificates import certificate_hosts, load_certificates
from pykcp.clients.errors import SendFailed
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.status import StatusError
from pykcp.observe.audit.policy import AuditedRequest, AuditLevel, parse_policy
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.operator.access.rbac import BindingPlace, RbacAction, next_step
from pykcp.programs.operator.cluster.metrics import error_type
from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.configuration.stage import Configuration
from pykcp.programs.operator.configuration.status import ReplicaCounts, object_status
from pykcp.programs.operator.drivers.kubernetes.objects import workload_objects
from pykcp.programs.operator.host.settings import VARIANTS
from pykcp.programs.operator.names import KINDS
from pykcp.programs.operator.platform import HostPlatform, KubernetesPlatform
from pykcp.programs.operator.records import Records
from pykcp.programs.operator.variants import variant_manifests
from pykcp.programs.shard.settings import ShardSettings
from pykcp.proxy.identity import DROPPED_GROUPS
from pykcp.types import Object

KUBERNETES = KubernetesPlatform()
PROJECT = pathlib.Path(__file__).parents[4]
PLACES = (
    "unit/programs/operator",
    "unit/proxy",
    "behaviour/operator",
    "behaviour/operate",
    "behaviour/deploy",
)
"""Folders with tests that the table in docs/design/operator.md names."""
ACCOUNTS = {"serviceAccount": {"enabled": True}}


def test_each_difference_is_listed_and_has_tests() -> None:
    page = (PROJECT / "docs/design/operator.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 23))
    folders = [PROJECT / "tests" / place for place in PLACES]
    code = "".join(path.read_text() for one in folders for path in one.glob("test_*.py"))
    for _, tests in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert names
        for name in names:
            assert f"def {name}(" in code, name


def _value(workload: CompiledWorkload, flag: str) -> str:
    (found,) = [w for w in workload.arguments if w.startswith(f"--{flag}=")]
    return found.partition("=")[2]


def test_1_the_flag_for_truncated_audit_events_exists() -> None:
    audit = {"webhook": {"truncateMaxEventSize": 10000}}
    root = only(configured(root_shard(audit=audit)), "root-kcp")
    assert _value(root, "audit-webhook-truncate-max-event-size") == "10000"
    ShardSettings.parse(root.arguments[1:])  # raises for a flag that does not exist


def test_2_defaults_of_oidc_are_applied_and_its_ca_is_a_file() -> None:
    oidc = {"issuerURL": "https://auth.example.com", "clientID": "kcp", "caFileRef": {"name": "ca"}}
    records = Records([secret("ca", ca__crt="pem")])
    out = configured(root_shard(), front_proxy(auth={"oidc": oidc, **ACCOUNTS}), records=records)
    proxy = only(out, "frontproxy-front-proxy")
    assert _value(proxy, "oidc-username-claim") == "sub"
    assert _value(proxy, "oidc-username-prefix") == "oidc:"
    assert _value(proxy, "oidc-groups-prefix") == "oidc:"
    file = proxy.file(_value(proxy, "oidc-ca-file"))
    assert file is not None
    assert file.content == b"pem"


def test_3_dropped_groups_are_added_to_the_protective_ones() -> None:
    proxy = front_proxy(auth={"dropGroups": ["a", "b"]})
    words = only(configured(root_shard(), proxy), "frontproxy-front-proxy").arguments
    settings, _ = FrontProxySettings.parse(words)
    assert settings.groups.authentication_drop_groups == (*DROPPED_GROUPS, "a", "b")
    kept = front_proxy(auth={"keepGroups": ["system:masters"]})
    words = only(configured(root_shard(), kept), "frontproxy-front-proxy").arguments
    settings, _ = FrontProxySettings.parse(words)
    assert "system:masters" not in settings.groups.authentication_drop_groups
    assert "system:kcp:logical-cluster-admin" in settings.groups.authentication_drop_groups


def test_5_a_deployment_template_does_not_wipe_pull_secrets() -> None:
    image = {"imagePullSecrets": [{"name": "registry"}]}
    pod = {"imagePullSecrets": [{"name": "mirror"}], "nodeSelector": {"disk": "fast"}}
    template = {"spec": {"template": {"spec": pod}}}
    root = root_shard(image=image, deploymentTemplate=template)
    workload = only(configured(root, platform=KUBERNETES), "root-kcp")
    spec = workload_objects(workload)[0]["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert spec["nodeSelector"] == {"disk": "fast"}


def test_6_the_secrets_of_a_kubeconfig_have_an_owner() -> None:
    out = configured(root_shard(), front_proxy(), kubeconfig())
    for name in ("kubeconfig-cert-admin", "admin"):
        record = out.records.secret(name)
        assert record is not None
        assert record.owner is not None
        assert (record.owner.kind, record.owner.name) == ("Kubeconfig", "admin")


def _status(
    obj: Object, out: Configuration, ready: int | None = 2, old: Object | None = None
) -> Object:
    states = {}
    if ready is not None:
        states = {one.name: ReplicaCounts(2, 2, ready) for one in out.workloads}
    return object_status({**obj, "status": old or {}}, out, states, NOW)


@pytest.mark.parametrize(
    "obj",
    [shard(), front_proxy(), root_shard(), made("CacheServer", "cache", certificates={})],
    ids=lambda obj: str(obj["kind"]),
)
def test_7_phases_follow_conditions_for_all_kinds_both_ways(obj: Object) -> None:
    out = configured(
        root_shard(), shard(), front_proxy(), made("CacheServer", "cache", certificates={})
    )
    assert _status(obj, out, None)["phase"] == "Provisioning"
    running = _status(obj, out)
    assert running["phase"] == "Running"
    broken = _status(obj, out, 1, running)
    assert broken["phase"] == "Provisioning"
    deleting = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "now"}}
    assert _status(deleting, out)["phase"] == "Deleting"


def test_7_a_changed_reason_alone_is_written_and_a_kubeconfig_waits_for_its_secret() -> None:
    obj = kubeconfig()
    absent = configured(obj)
    status = object_status(obj, absent, {}, NOW)
    assert status["phase"] == "Failed"
    available = [c for c in conditions_of({"status": status}) if c["type"] == "Available"]
    assert available[0]["reason"] == "DeploymentUnavailable"
    root = root_shard(certificates={"caSecretRef": {"name": "absent"}})
    waiting = object_status(
        {**obj, "status": status}, configured(root, front_proxy(), obj), {}, NOW
    )
    assert waiting["phase"] == "Provisioning"
    available = [c for c in conditions_of({"status": waiting}) if c["type"] == "Available"]
    assert available[0]["reason"] != "DeploymentUnavailable"


def test_10_certificates_of_a_front_proxy_have_the_domain_of_the_cluster() -> None:
    root = root_shard(clusterDomain="corp.internal")
    out = configured(root, front_proxy(), platform=KUBERNETES)
    record = out.records.secret("root-frontproxy-server")
    assert record is not None
    (leaf, *_) = load_certificates(record.data["tls.crt"], "server")
    names = certificate_hosts(leaf)
    assert any(name.endswith(".svc.corp.internal") for name in names)
    assert not any("cluster.local" in name for name in names)


def test_11_the_proxys_indexer_believes_the_extra_authority_too() -> None:
    records = Records([secret("letsencrypt", tls__crt="EXTRA")])
    proxy = front_proxy(caBundleSecretRef={"name": "letsencrypt"})
    workload = only(configured(root_shard(), proxy, records=records), "frontproxy-front-proxy")
    mapping = workload.file(_value(workload, "mapping-file"))
    watching = workload.file(_value(workload, "shards-kubeconfig"))
    assert mapping is not None
    assert watching is not None
    bundle = json.loads(mapping.content)[0]["backend_server_ca"]
    assert json.loads(watching.content)["clusters"][0]["cluster"]["certificate-authority"] == bundle
    file = workload.file(bundle)
    assert file is not None
    assert b"EXTRA" in file.content


def test_12_the_root_shard_has_a_certificate_for_mounts() -> None:
    root = only(configured(root_shard()), "root-kcp")
    assert root.file(_value(root, "mount-proxy-client-cert-file")) is not None


def test_13_what_is_not_used_is_not_made() -> None:
    out = configured(root_shard(), shard(), platform=KUBERNETES)
    assert out.records.secret("root-virtual-workspaces") is None
    service = workload_objects(only(out, "alpha-shard-kcp"))[1]
    assert [port["port"] for port in service["spec"]["ports"]] == [6443]


def test_14_a_new_shard_restarts_nothing() -> None:
    platform = HostPlatform("/root-directory")
    objects = (root_shard(auth=ACCOUNTS), shard(auth=ACCOUNTS), front_proxy(auth=ACCOUNTS))
    before = configured(*objects, platform=platform)
    after = again(before, *objects, shard("beta", auth=ACCOUNTS), now=NOW + 60, platform=platform)
    for workload in before.workloads:
        same = only(after, workload.name)
        assert same.restart_revision == workload.restart_revision
        assert same.revision != workload.revision  # the keys of the new shard
    kubernetes = configured(*objects, platform=KUBERNETES)
    grown = again(kubernetes, *objects, shard("beta"), now=NOW + 60, platform=KUBERNETES)
    for one in kubernetes.workloads:
        ours = replace(one, image="example.com/pykcp:1")
        grew = replace(only(grown, one.name), image="example.com/pykcp:1")
        assert workload_objects(ours)[0] == workload_objects(grew)[0]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (StatusError('configmaps "a" is forbidden', reason="Forbidden"), "Forbidden"),
        (StatusError("x", reason=f"words of a server {time.time()}"), "Unknown"),
        (SendFailed("dial tcp 10.0.0.1:443: connect: connection refused"), "ConnectionFailed"),
    ],
)
def test_15_labels_of_metrics_are_bounded(error: StatusError | SendFailed, word: str) -> None:
    assert error_type(error) == word


@pytest.mark.parametrize(("given", "flag"), [("Pass", "pass"), ("Deny", "deny")])
def test_16_what_happens_to_requests_without_credentials_can_be_said(given: str, flag: str) -> None:
    workload = only(
        configured(root_shard(), front_proxy(auth={"anonymous": given})), "frontproxy-front-proxy"
    )
    settings, _ = FrontProxySettings.parse(workload.arguments)
    assert settings.groups.authentication_anonymous == flag


def test_17_role_bindings_of_an_installation_that_is_gone_do_not_hold_up_a_deletion() -> None:
    obj = kubeconfig(authorization={"clusterRoleBindings": {"clusterRoles": ["admin"]}})
    obj["metadata"] |= {"uid": "u", "finalizers": ["operator.kcp.io/cleanup-rbac"]}
    obj["status"] = {"authorization": {"provisionedCluster": "root"}}
    assert next_step(obj, "root").action is RbacAction.RECORD
    obj["metadata"]["deletionTimestamp"] = "now"
    assert next_step(obj) == (RbacAction.REMOVE, BindingPlace("root"))
    obj["status"] = {"authorization": {"provisionedCluster": ""}}
    assert next_step(obj).action is RbacAction.RELEASE


@pytest.mark.parametrize("variant", VARIANTS)
def test_19_pages_of_variants_are_run_and_agree_with_their_manifests(variant: str) -> None:
    page = (PROJECT / f"docs/operate/variants/{variant}.md").read_text()
    tests = (PROJECT / "tests/docs/test_pages.py").read_text()
    assert f'"operate/variants/{variant}.md": "tests/' in tests
    manifests = [one for one in yaml.safe_load_all(variant_manifests(variant)) if one]
    assert {one["kind"] for one in manifests} <= {*KINDS, "Secret", "ConfigMap"}  # no Bundle
    for one in manifests:
        secret = ((one.get("spec") or {}).get("etcd") or {}).get("tlsConfig", {}).get("secretRef")
        assert not secret or not secret["name"].endswith("-ca")  # not the authority's own key
    for text in (page, variant_manifests(variant)):
        assert "/healthz" not in text  # it does not say whether a server is ready
        assert "example.io" not in text


def test_20_the_documented_audit_policy_does_what_the_page_says() -> None:
    page = (PROJECT / "docs/operate/audit.md").read_text()
    (text,) = re.findall(r"```yaml[^\n]*\n(apiVersion: audit.*?)```", page, re.DOTALL)
    policy = parse_policy(text)

    def level(verb: str, resource: str) -> AuditLevel:
        question = AuditedRequest("a", (), verb, is_resource=True, resource=resource, name="x")
        return policy.evaluate(question).level

    assert level("create", "secrets") is AuditLevel.METADATA
    assert level("create", "services") is AuditLevel.REQUEST_RESPONSE
    assert level("get", "services") is AuditLevel.METADATA


def test_21_a_shards_bundle_begins_with_the_server_authority() -> None:
    records = Records([secret("extra", tls__crt="EXTRA")])
    out = configured(root_shard(), shard(caBundleSecretRef={"name": "extra"}), records=records)
    bundle = out.records.secret("alpha-merged-ca-bundle")
    authority = out.records.secret("root-server-ca")
    assert bundle is not None
    assert authority is not None
    assert bundle.data["tls.crt"].startswith(authority.data["tls.crt"].strip())
    assert b"EXTRA" in bundle.data["tls.crt"]


@pytest.mark.parametrize(
    ("spec", "status", "reason"),
    [
        ({}, "True", "Schedulable"),
        ({"unschedulable": False}, "True", "Schedulable"),
        ({"unschedulable": True}, "False", "Unschedulable"),
    ],
)
def test_22_a_shard_says_whether_it_takes_workspaces(
    spec: Object, status: str, reason: str
) -> None:
    obj = shard(**spec)
    found = conditions_of({"status": _status(obj, configured(root_shard(), obj))})
    (one,) = [c for c in found if c["type"] == "Schedulable"]
    assert (one["status"], one["reason"]) == (status, reason)
