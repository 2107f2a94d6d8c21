"""Certificates by cert-manager: what is asked for, and what happens until it is there."""

from __future__ import annotations

import pytest
from tests.unit.programs.operator.objects import (
    NAMESPACE,
    NOW,
    configured,
    front_proxy,
    root_shard,
    shard,
)

from pykcp.programs.operator.configuration.stage import Configuration, configure
from pykcp.programs.operator.pki.cert_manager import CertManagerIssuance
from pykcp.programs.operator.pki.engine import CertificateEngine
from pykcp.programs.operator.platform import KubernetesPlatform
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.types import Object

KUBERNETES = KubernetesPlatform()
ISSUER = {"issuerRef": {"name": "company", "kind": "ClusterIssuer"}}


def _run(
    *objects: Object, records: Records, is_installed: bool = True, issues_all: bool = False
) -> tuple[Configuration, dict[tuple[str, str], Object]]:
    engine = CertificateEngine(records, NOW, KUBERNETES.settle_seconds)
    issuance = CertManagerIssuance(
        engine, NAMESPACE, is_installed=is_installed, issues_all=issues_all
    )
    out = configure(NAMESPACE, objects, records, KUBERNETES, NOW, issuance)
    return out, {(one["kind"], one["metadata"]["name"]): one for one in issuance.wanted}


def _authority() -> ConfigRecord:
    """What cert-manager would write for `root-ca`."""
    found = configured(root_shard()).records.secret("root-ca")
    assert found is not None
    return ConfigRecord("root-ca", found.data)


def test_a_root_of_the_users_issuer_is_waited_for_and_then_used() -> None:
    root = root_shard(certificates=ISSUER)
    out, wanted = _run(root, shard(), records=Records())
    problem = out.problems["RootShard", "root"]
    assert (problem.reason, str(problem)) == (
        "CertificatesPending",
        'Certificate "root-ca" is not ready yet',
    )
    assert "has no certificates" in str(out.problems["Shard", "alpha"])
    spec = wanted["Certificate", "root-ca"]["spec"]
    assert spec["issuerRef"] == {"name": "company", "kind": "ClusterIssuer", "group": "cert-manager.io"}  # fmt: skip
    assert spec["isCA"]
    assert spec["secretName"] == "root-ca"
    out, _ = _run(root, shard(), records=Records([_authority()]))
    assert out.problems == {}
    assert out.records.secret("root-server-ca") is not None


def test_without_cert_manager_an_issuer_is_an_error_that_names_both() -> None:
    out, wanted = _run(root_shard(certificates=ISSUER), records=Records(), is_installed=False)
    assert str(out.problems["RootShard", "root"]) == (
        'root-ca: issuer "company" needs cert-manager, which is not installed'
    )
    assert wanted == {}


def test_a_certificate_of_a_foreign_issuer_has_only_the_public_names() -> None:
    """Public issuers refuse names of the cluster."""
    template = {"spec": {"issuerRef": {"name": "letsencrypt"}, "dnsNames": ["api.example.com"]}}
    proxy = front_proxy(certificateTemplates={"server": template})
    out, wanted = _run(root_shard(), proxy, records=Records())
    assert out.problems["FrontProxy", "frontproxy"].reason == "CertificatesPending"
    spec = wanted["Certificate", "root-frontproxy-server"]["spec"]
    assert spec["dnsNames"] == ["api.example.com"]
    assert spec["issuerRef"]["name"] == "letsencrypt"
    assert len(wanted) == 1  # all others are issued here


def test_all_certificates_but_those_of_service_accounts_can_come_from_cert_manager() -> None:
    out, wanted = _run(root_shard(), records=Records([_authority()]), issues_all=True)
    assert ("Certificate", "root-server-ca") in wanted
    assert wanted["Issuer", "root-server-ca"]["spec"] == {"ca": {"secretName": "root-server-ca"}}
    assert out.problems["RootShard", "root"].reason == "CertificatesPending"
    own = configured(root_shard(), platform=KUBERNETES).records
    out, wanted = _run(root_shard(), records=Records(own), issues_all=True)
    assert out.problems == {}
    assert ("Certificate", "root-server") in wanted
    assert ("Certificate", "root-service-account") not in wanted
    client = wanted["Certificate", "root-client"]["spec"]
    assert client["commonName"] == "root"
    assert client["subject"] == {"organizations": ["system:masters"]}
    assert client["usages"] == ["digital signature", "key encipherment", "client auth"]


@pytest.mark.parametrize(
    ("certificates", "top"), [({}, "root-ca"), ({"caSecretRef": {"name": "company"}}, "company")]
)
def test_every_authority_has_an_issuer(certificates: Object, top: str) -> None:
    """Also a root that signs itself or is given: what is below it is asked for by its Issuer."""
    given = ConfigRecord("company", _authority().data)
    out, wanted = _run(
        root_shard(certificates=certificates), records=Records([given]), issues_all=True
    )
    pending = out.problems["RootShard", "root"]
    assert pending.reason == "CertificatesPending"
    asked = {one["spec"]["issuerRef"]["name"] for (kind, _), one in wanted.items() if kind == "Certificate"}  # fmt: skip
    assert {top, "root-server-ca", "root-client-ca", "root-requestheader-client-ca"} == asked
    for name in asked:
        assert wanted["Issuer", name]["spec"] == {"ca": {"secretName": name}}
    # Everything is asked for at once, and all that is missing is named.
    assert ("Certificate", "root-proxy-server") not in wanted
    for name in ("root-server-ca", "root-service-account-ca", "root-server", "root-mounts-proxy"):
        assert ("Certificate", name) in wanted
        assert f'"{name}" is not ready yet' in pending.message


def test_authorities_keep_their_keys_when_cert_manager_renews_them() -> None:
    """It signs nothing below them anew, so that another key would be trusted by nobody."""
    _, wanted = _run(root_shard(), records=Records(), issues_all=True)
    policies = {
        name: one["spec"]["privateKey"]["rotationPolicy"]
        for (kind, name), one in wanted.items()
        if kind == "Certificate"
    }
    assert {policies[name] for name in policies if name.endswith("-ca")} == {"Never"}
    assert policies["root-server"] == "Always"


def test_on_a_host_our_own_authority_signs_instead() -> None:
    template = {"spec": {"issuerRef": {"name": "letsencrypt"}, "dnsNames": ["api.example.com"]}}
    proxy = front_proxy(certificateTemplates={"server": template})
    out = configured(root_shard(certificates=ISSUER), proxy)
    assert out.problems == {}
