"""Real Helm, where it is installed."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import yaml

from pykcp.types import Object

CHARTS = pathlib.Path(__file__).parents[3] / "deploy" / "charts"


def find_helm() -> str | None:
    """On the path, or where the environment says."""
    return os.environ.get("PYKCP_HELM") or shutil.which("helm")


HELM = find_helm()


def helm(*words: str, kubeconfig: pathlib.Path | None = None) -> str:
    assert HELM is not None
    environment = dict(os.environ)
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    done = subprocess.run(
        [HELM, *words], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(chart: str, *words: str) -> list[Object]:
    """The objects that a chart makes."""
    text = helm("template", "test", str(CHARTS / chart), "--namespace=kcp", *words)
    return [one for one in yaml.safe_load_all(text) if one]


def only(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    return found
