"""`kcp envtest DIR`: programs that controller-runtime's envtest starts in place of its own.

envtest starts `etcd` and `kube-apiserver` of the directory `$KUBEBUILDER_ASSETS`. The programs that
are written here are small scripts: `kube-apiserver` runs `kcp start` with one logical cluster at the
root of the URL, and `etcd` only answers health checks, since the server has a store of its own.
Both end when the tests that started them are gone, also if those were killed.
"""

from __future__ import annotations

import http.server
import os
import pathlib
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from pykcp.cli.server import HELP

CLUSTER = "envtest"
USAGE = """Write programs that controller-runtime's envtest starts instead of kube-apiserver and etcd.

Usage:
  kcp envtest DIR

Then run the tests of an operator as always:
  KUBEBUILDER_ASSETS=DIR go test ./...

The server has all kinds of Kubernetes and none of its controllers, as in envtest.
"""
PASSED = frozenset((
    "audit-log-path", "audit-policy-file", "bind-address", "client-ca-file", "oidc-ca-file",
    "oidc-client-id", "oidc-groups-claim", "oidc-issuer-url", "oidc-username-claim",
    "oidc-username-prefix", "requestheader-allowed-names", "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix", "requestheader-group-headers",
    "requestheader-username-headers", "secure-port", "service-account-issuer",
    "service-account-key-file", "service-account-signing-key-file", "service-cluster-ip-range",
    "service-node-port-range", "tls-cert-file", "tls-private-key-file", "token-auth-file", "v",
))  # fmt: skip
"""Flags of kube-apiserver that `kcp start` has, too. Others have no meaning here."""
_DIRECTORIES = "k8s_test_framework_"
"""How the names of the directories begin that envtest gives to its programs."""
_LOOK_SECONDS = 1.0


def main(words: Sequence[str]) -> int:
    if not words or words[0] in HELP:
        print(USAGE, end="")
        return 0 if words else 1
    if words[0] == "kube-apiserver":
        return _run_server(words[1:])
    if words[0] == "etcd":
        return _answer_health_checks(words[1:])
    folder = pathlib.Path(words[0])
    write_programs(folder)
    print(f"try: KUBEBUILDER_ASSETS={shlex.quote(str(folder.absolute()))} go test ./...")
    return 0


def write_programs(folder: pathlib.Path) -> None:
    """`kube-apiserver`, `etcd`, and `kubectl` if this machine has one."""
    folder.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    for name in ("kube-apiserver", "etcd"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {python} -m pykcp envtest {name} "$@"\n')
        path.chmod(0o755)
    kubectl = shutil.which("kubectl")
    link = folder / "kubectl"
    if kubectl and not link.exists():
        link.symlink_to(kubectl)


def server_words(words: Sequence[str]) -> list[str]:
    """The flags of `kcp start` for those of kube-apiserver."""
    given: dict[str, str] = {}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        given[name] = value
    out = [
        f"--root-directory={given.get('cert-dir') or '.kcp'}",
        f"--kubernetes-cluster={CLUSTER}",
        "--run-kubernetes-controllers=false",
    ]
    return out + [f"--{name}={value}" for name, value in given.items() if name in PASSED]


def _run_server(words: Sequence[str]) -> int:
    if any(word in HELP for word in words):
        print("kube-apiserver of `kcp envtest`: flags that have no meaning here are ignored.")
        return 0
    from pykcp.cli.kcp import START
    from pykcp.cli.server import start

    _end_with_tests(words)
    return start(START, server_words(words))


def _end_with_tests(words: Sequence[str]) -> None:
    """Stop when the process that started this one is gone, if that is envtest.

    Tests that are killed, by a time limit for example, cannot stop what they have started.
    """
    if not any(_DIRECTORIES in word for word in words):
        return
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, name="envtest", daemon=True).start()


class _Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"health":"true","reason":""}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: envtest asks every few milliseconds."""


def _answer_health_checks(words: Sequence[str]) -> int:
    """As an etcd that has nothing else to do, until a signal ends it."""
    lead = "--listen-client-urls="
    urls = [word.removeprefix(lead) for word in words if word.startswith(lead)]
    if not urls:
        print("etcd of `kcp envtest`: --listen-client-urls is required", file=sys.stderr)
        return 1
    url = urlsplit(urls[0].partition(",")[0])
    address = (url.hostname or "127.0.0.1", url.port or 2379)
    _end_with_tests(words)
    with http.server.ThreadingHTTPServer(address, _Healthy) as server:
        server.serve_forever()
    return 0
