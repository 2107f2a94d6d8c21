"""Levels of Pod Security; the texts are kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kube.workloads.pod_security import (
    LevelVersion,
    PodPolicy,
    Summary,
    changes_images,
    describe,
    pod_of,
    read_policy,
    violations,
)
from pykcp.types import Object

PREFIX = "pod-security.kubernetes.io/"
SAFE: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "a", **security: Any) -> Object:
    return {"name": name, "image": "b:1", "securityContext": security}


def said(
    spec: Object, level: str = "baseline", version: str = "latest", notes: Object | None = None
) -> str:
    asked = LevelVersion(level, version)
    return describe(violations(asked, {"annotations": notes or {}}, spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, ""),
        ({"containers": [container(privileged=True)]}, 'privileged (container "a" must not set securityContext.privileged=true)'),
        (
            {"containers": [container("a", privileged=True)], "initContainers": [container("i", privileged=True)]},
            'privileged (containers "i", "a" must not set securityContext.privileged=true)',
        ),
        ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, 'hostPath volumes (volume "v")'),
        (
            {"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 9}]}]},
            'hostPort (container "a" uses hostPorts 80, 9)',
        ),
        (
            {"containers": [container(capabilities={"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]})]},
            'non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)',
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {"securityContext": {"seLinuxOptions": {"type": "x", "user": "u"}}, "containers": [container(seLinuxOptions={"role": "r"})]},
            'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set; role may not be set)',
        ),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}}, "forbidden sysctls (kernel.msgmax)"),
        (
            {"containers": [container(procMount="Unmasked")]},
            'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
        ),
        ({"containers": [container(procMount="Unmasked")], "hostUsers": False}, ""),
        (
            {"containers": [container(windowsOptions={"hostProcess": True})]},
            'hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        (
            {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]},
            'probe or lifecycle host (container "a" uses probe or lifecycle host "h")',
        ),
    ],
)  # fmt: skip
def test_baseline(spec: Object, expected: str) -> None:
    assert said(spec) == expected


def test_annotations_of_profiles() -> None:
    notes = {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
    key = "container.apparmor.security.beta.kubernetes.io/a"
    expected = f'forbidden AppArmor profile (annotation must not set AppArmor profile type to "{key}="unconfined"")'
    assert said({"containers": [container()]}, notes=notes) == expected
    old = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    text = 'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    assert said({"containers": []}, version="v1.18", notes=old) == text
    assert said({"containers": []}, notes=old) == ""


def test_restricted_names_everything_that_is_missing() -> None:
    assert said({"containers": [container(**SAFE)]}, "restricted") == ""
    assert said({"containers": [{"name": "nginx", "image": "nginx"}]}, "restricted") == (
        'allowPrivilegeEscalation != false (container "nginx" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "nginx" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "nginx" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "nginx" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"runAsUser": 0}, 'runAsUser=0 (container "a" must not set runAsUser=0)'),
        ({"runAsNonRoot": False}, 'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)'),
        (
            {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}},
            'unrestricted capabilities (container "a" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
    ],
)  # fmt: skip
def test_restricted(change: Object, expected: str) -> None:
    assert said({"containers": [container(**{**SAFE, **change})]}, "restricted") == expected


def test_restricted_replaces_rules_of_baseline() -> None:
    volumes = [{"name": "v", "hostPath": {}}, {"name": "n", "nfs": {}}, {"name": "c", "csi": {}}]
    spec = {"containers": [container(**SAFE)], "volumes": volumes}
    assert said(spec, "restricted") == (
        'restricted volume types (volumes "v", "n" use restricted volume types "hostPath", "nfs")'
    )


def test_windows_and_older_versions() -> None:
    spec: Object = {"containers": [container(runAsNonRoot=True)], "os": {"name": "windows"}}
    assert said(spec, "restricted") == ""
    assert said(spec, "restricted", "v1.24").startswith("allowPrivilegeEscalation != false")
    assert said({"containers": [container()]}, "restricted", "v1.7") == (
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'
    )
    assert said({"containers": [container(**SAFE, runAsUser=0)]}, "restricted", "v1.22") == ""


def test_labels() -> None:
    assert read_policy({}) == (PodPolicy(), [])
    policy, errors = read_policy(
        {f"{PREFIX}enforce": "baseline", f"{PREFIX}enforce-version": "v1.30"}
    )
    level = LevelVersion("baseline", "v1.30")
    assert (policy, errors) == (PodPolicy(level, LevelVersion(), level), [])
    policy, errors = read_policy({f"{PREFIX}enforce": "strict", f"{PREFIX}warn-version": "1.2"})
    assert policy.enforce.level == "restricted"
    assert [error.text() for error in errors] == [
        f'metadata.labels[{PREFIX}enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted',
        f'metadata.labels[{PREFIX}warn-version]: Invalid value: "1.2": must be "latest" or "v1.x"',
    ]


def test_existing_pods() -> None:
    found = Summary(LevelVersion("baseline"))
    for name in ("c", "b", "a"):
        found.add({"metadata": {"name": name}, "spec": {"hostPID": True}})
    found.add({"metadata": {"name": "x"}, "spec": {"hostPID": name != "a", "hostIPC": True}})
    found.add({"metadata": {"name": "fine"}, "spec": {}})
    assert found.lines() == ["a (and 3 other pods): host namespaces"]


def test_templates_and_updates() -> None:
    template = {"metadata": {}, "spec": {"containers": []}}
    job = {"spec": {"jobTemplate": {"spec": {"template": template}}}}
    assert pod_of(("batch", "cronjobs"), job) is template
    assert pod_of(("apps", "deployments"), {"spec": {}}) is None
    before = {"containers": [{"name": "a", "image": "b:1"}]}
    assert not changes_images({**before, "tolerations": []}, before)
    assert changes_images({"containers": [{"name": "a", "image": "b:2"}]}, before)
    assert changes_images({**before, "ephemeralContainers": [{"name": "e", "image": "c"}]}, before)
