"""`kubectl explain` of Kubernetes' kinds for workloads, bound by a workspace from the export of `root`."""

from __future__ import annotations

import pathlib
import shutil
from dataclasses import replace

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.kubectl import Kubectl, write_kubeconfig

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="there is no kubectl on this machine"
)


@pytest.fixture(scope="module")
def kubectl(workspace: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    folder: pathlib.Path = tmp_path_factory.mktemp("explain")
    access = replace(workspace.access, path=workspace.prefix)
    kubeconfig = write_kubeconfig(folder / "kubeconfig", access, folder / "ca.crt")
    return Kubectl(str(shutil.which("kubectl")), kubeconfig)


def words(text: str) -> str:
    """Text without the line breaks that kubectl adds."""
    return " ".join(text.split())


def test_a_field_with_the_fields_below_it(kubectl: Kubectl) -> None:
    shown = words(kubectl("explain", "pod.spec.containers.resources"))
    assert "FIELD: resources" in shown
    assert "How much CPU, memory and other resources the container asks for and may use." in shown
    assert "a container that exceeds its memory is killed." in shown
    assert "<no description>" not in shown


def test_a_list_says_also_what_is_in_it(kubectl: Kubectl) -> None:
    shown = words(kubectl("explain", "deployment.spec.template.spec.containers"))
    assert "The containers of the pod, at least one." in shown
    assert "A program that runs in a pod, from an image." in shown
    assert "<no description>" not in shown


@pytest.mark.parametrize(
    "path",
    [
        "pod", "pod.status", "pod.spec.affinity.nodeAffinity", "service.spec", "statefulset.spec",
        "daemonset.spec.updateStrategy", "cronjob.spec.jobTemplate.spec", "pvc.spec", "pv.spec",
        "storageclass", "ingress.spec.rules.http.paths", "networkpolicy.spec.egress", "hpa.spec",
        "pdb.spec", "node.status.conditions", "endpointslice.endpoints", "resourceclaim.spec",
    ],
)  # fmt: skip
def test_nothing_is_without_a_description(kubectl: Kubectl, path: str) -> None:
    assert "<no description>" not in kubectl("explain", path)
