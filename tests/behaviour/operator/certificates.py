"""A stand-in for cert-manager: issues what Certificates ask for, by Issuers of their namespace."""

from __future__ import annotations

import base64
import threading
import time
from typing import Self

from pykcp.programs.operator.pki.issue import SigningAuthority, issue
from pykcp.programs.operator.pki.requests import CLIENT_AUTH, SERVER_AUTH, CertificateRequest
from pykcp.testing.client import TestClient
from pykcp.types import Object

_GROUP = "/apis/cert-manager.io/v1"
_USAGES = {"server auth": SERVER_AUTH, "client auth": CLIENT_AUTH}


class CertManager:
    """Works on one namespace, started with `with`."""

    def __init__(self, client: TestClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(0.3):
            for certificate in self._list("certificates"):
                self._tend(certificate)
        self._client.drop()  # the connection of this thread

    def _list(self, plural: str) -> list[Object]:
        found = self._client.get(f"{_GROUP}/namespaces/{self._namespace}/{plural}")
        return list(found.json["items"]) if found.status == 200 else []

    def _secret(self, name: str) -> dict[str, bytes] | None:
        found = self._client.get(f"/api/v1/namespaces/{self._namespace}/secrets/{name}")
        if found.status != 200:
            return None
        return {key: base64.b64decode(value) for key, value in found.json["data"].items()}

    def _tend(self, certificate: Object) -> None:
        spec = certificate["spec"]
        if self._secret(spec["secretName"]) is not None:
            return
        issuers = {one["metadata"]["name"]: one["spec"] for one in self._list("issuers")}
        issuer = issuers.get(spec["issuerRef"]["name"])
        if issuer is None:
            return
        signer = None
        if "ca" in issuer:
            found = self._secret(issuer["ca"]["secretName"])
            if found is None:
                return
            signer = SigningAuthority(found["tls.crt"], found["tls.key"], found["ca.crt"])
        made = issue(_request(spec), signer, time.time())
        data = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": made.authority}
        secret = {
            "metadata": {"name": spec["secretName"]},
            "type": "kubernetes.io/tls",
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        self._client.drop()  # kube-apiserver closes connections that were idle
        reply = self._client.post(f"/api/v1/namespaces/{self._namespace}/secrets", secret)
        assert reply.status in (201, 409), reply


def _request(spec: Object) -> CertificateRequest:
    return CertificateRequest(
        spec["secretName"],
        common_name=spec.get("commonName") or "",
        organizations=tuple((spec.get("subject") or {}).get("organizations") or ()),
        dns_names=tuple(spec.get("dnsNames") or ()),
        addresses=tuple(spec.get("ipAddresses") or ()),
        usages=tuple(_USAGES[one] for one in spec.get("usages") or () if one in _USAGES),
        is_authority=bool(spec.get("isCA")),
    )
