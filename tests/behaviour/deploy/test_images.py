"""The image and the files that run it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from pykcp.programs.shard.settings import ShardSettings

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"


def test_the_image_holds_the_programs_and_is_not_for_root() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    programs = re.search(r"for program in ([^;]+);", text)
    assert programs is not None
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert set(programs[1].split()) <= set(project["scripts"])
    last = text.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert int(user) > 0
    command = re.search(r'^CMD \["start", (.*)\]$', last, re.MULTILINE)
    assert command is not None
    ShardSettings.parse(re.findall(r'"([^"]+)"', command[1]))
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (DEPLOY.parent / name).exists(), name


def test_compose_starts_what_the_program_accepts() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    kcp = compose["services"]["kcp"]
    start, *words = kcp["command"]
    assert start == "start"
    _, warnings = ShardSettings.parse(words)
    assert warnings == []
    assert kcp["read_only"]
    assert kcp["cap_drop"] == ["ALL"]
    assert compose["networks"]["store"] == {"internal": True}  # etcd is in reach of kcp only
    assert compose["services"]["etcd"]["networks"] == ["store"]


@pytest.mark.slow
def test_the_image_builds_and_serves() -> None:
    if not any(shutil.which(one) for one in ("podman", "docker", "buildah")):
        pytest.skip("neither podman, docker nor buildah is installed")
    done = subprocess.run(
        [str(DEPLOY / "check-image")], capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
