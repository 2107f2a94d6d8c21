"""Driving a server with a real kubectl."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from pykcp.testing.kubeconfig import Access

SECONDS = 60.0


def write_kubeconfig(path: pathlib.Path, access: Access, ca_file: pathlib.Path) -> pathlib.Path:
    """A kubeconfig with one context, for any client; `access.path` picks the logical cluster."""
    ca_file.write_text(access.ca)
    server = f"https://{access.host}:{access.port}{access.path}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "it", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
        ],
        "users": [{"name": "me", "user": {"token": access.token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "current-context": "it",
    }
    path.write_text(yaml.safe_dump(config))
    return path


class Kubectl:
    """One kubectl with one kubeconfig, and a home (with its caches) of its own."""

    def __init__(self, binary: str, kubeconfig: pathlib.Path) -> None:
        self.binary = binary
        self.kubeconfig = kubeconfig
        self.minor = minor_version(binary)
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(kubeconfig.parent),
            "KUBECONFIG": str(kubeconfig),
        }

    def attempt(
        self, *words: str, stdin: str | dict[str, Any] = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end, whatever comes of it; an object as `stdin` is sent as JSON."""
        return subprocess.run(
            [self.binary, *words],
            input=stdin if isinstance(stdin, str) else json.dumps(stdin),
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def __call__(self, *words: str, stdin: str | dict[str, Any] = "", **environment: str) -> str:
        """Run, expect success, and return what it printed."""
        done = self.attempt(*words, stdin=stdin, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(words)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *words: str, stdin: str | dict[str, Any] = "", **environment: str) -> str:
        """Run, expect failure, and return what it complained."""
        done = self.attempt(*words, stdin=stdin, **environment)
        assert done.returncode != 0, f"kubectl {' '.join(words)} succeeded:\n{done.stdout}"
        return done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))

    @contextmanager
    def following(self, *words: str) -> Iterator[Iterator[str]]:
        """The lines of a command that goes on, as they come; it is ended with the block."""
        process = subprocess.Popen(
            [self.binary, *words], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            yield iter(process.stdout.readline, "")
        finally:
            process.terminate()
            process.communicate()


def minor_version(binary: str) -> int:
    """36 for kubectl v1.36.0."""
    done = subprocess.run(
        [binary, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    found = re.match(r"v1\.(\d+)", json.loads(done.stdout)["clientVersion"]["gitVersion"])
    assert found is not None, done.stdout
    return int(found.group(1))
