"""/version: the Kubernetes whose API this is, marked as kcp's."""

from __future__ import annotations

import platform

from pykcp.types import Object

KUBERNETES = "1.36.0"
KCP = "0.32.0"
GIT_VERSION = f"v{KUBERNETES}+kcp-v{KCP}"


def version() -> Object:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
