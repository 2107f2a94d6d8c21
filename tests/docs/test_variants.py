"""Pages of the reference installations: their commands are typed, up to the start of the programs.

Names of the pages are not those of this machine, and their ports are taken by whoever comes first. So `kcp up` writes
systemd units in place of starting programs: certificates, kubeconfigs, files and command lines are made, and each
program accepts its command line. tests/behaviour/operate starts the same installations on addresses of their own.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from tests.docs.test_pages import blocks, environ

from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.kit.settings import ProgramSettings
from pykcp.programs.operator.variants import variant_manifests
from pykcp.programs.shard.settings import ShardSettings

_WRAPPER = """#!/bin/bash
words=()
for word in "$@"; do
  # The user of the page does not exist here: test_systemd.py runs programs as another one.
  case "$word" in --detach | --systemd-user=*) ;; *) words+=("$word") ;; esac
done
case "$1" in
  up) [[ "$*" = *--systemd=* ]] || words+=("--systemd=units") ;;
  export | import) words+=("--passphrase-file={folder}/passphrase") ;;
esac
exec {python} -m pykcp "${{words[@]}}"
"""
_PROGRAMS: dict[str, type[ProgramSettings]] = {
    "pykcp start": ShardSettings,
    "pykcp.cli.kcp_front_proxy": FrontProxySettings,
}


@pytest.fixture
def typing(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a `kcp` that starts no programs."""
    (tmp_path / "passphrase").write_text("correct horse battery\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    wrapper = programs / "kcp"
    wrapper.write_text(_WRAPPER.format(folder=tmp_path, python=sys.executable))
    wrapper.chmod(0o755)
    return tmp_path


def typed(folder: pathlib.Path, page: str) -> Iterator[pathlib.Path]:
    """Type each block of a page, on the host that it names; the folder of the host."""
    home = environ(folder)
    variables = {**home, "PATH": f"{folder / 'bin'}:{home['PATH']}"}
    for words, text in blocks(page):
        if words != ["sh"]:
            continue
        named = re.search(r"^# on the (?:host of )?(\w+)", text, re.MULTILINE)
        host = folder / (named[1] if named else "here")
        host.mkdir(exist_ok=True)
        for archive in folder.glob("*/*.kcp-export"):  # copied by any means
            if archive.parent != host:
                shutil.copy(archive, host)
        text = text.replace("=/", f"={folder}/")  # directories of the test
        lines = [line for line in text.splitlines() if not line.startswith("kubectl ")]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=host, env=variables, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        yield host


def programs(units: pathlib.Path) -> dict[str, ProgramSettings]:
    """The programs of a host by name; each has read its command line."""
    found = {}
    for unit in sorted(units.glob("*@.service")):
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        for program, settings in _PROGRAMS.items():
            if f" -m {program} " in line:
                words = shlex.split(line.split(f" -m {program} ", 1)[1])
                words = [word.replace("%i", "0").replace("%%", "%") for word in words]
                found[unit.name.split("@")[0]] = settings.parse(words)[0].checked()
    return found


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("dekker", {"root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy"}),
        ("vespucci", {"root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy"}),
        (
            "comer",
            {
                "root-kcp",
                "alpha-shard-kcp",
                "frontproxy-front-proxy",
                "frontproxy-internal-front-proxy",
            },
        ),
    ],
)
def test_a_variant(page: str, expected: set[str], typing: pathlib.Path) -> None:
    *_, host = typed(typing, f"operate/variants/{page}.md")
    assert set(programs(host / "units")) == {f"kcp-kcp-{page}-{name}" for name in expected}
    if page == "comer":
        config = yaml.safe_load((host / "admin.kubeconfig").read_text())
        server = config["clusters"][0]["cluster"]["server"]
        assert server == "https://api-internal.comer.example.com:6446/clusters/root"


def test_the_page_of_the_command(typing: pathlib.Path) -> None:
    """An installation begun from a variant, from manifests, and with units in a place of their own."""
    manifests = typing / "here" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "dekker.yaml").write_text(variant_manifests("dekker"))
    *_, host = typed(typing, "operate/up.md")
    expected = {"root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy"}
    for units in (host / "units", typing / "etc" / "systemd" / "system"):
        assert set(programs(units)) == {f"kcp-kcp-dekker-{name}" for name in expected}


def test_hosts_of_zheng(typing: pathlib.Path) -> None:
    """The control host makes everything and runs its own part; the others run what they import."""
    for _ in typed(typing, "operate/variants/zheng.md"):
        pass
    control = programs(typing / "control" / "units")
    assert set(control) == {"kcp-kcp-zheng-root-kcp", "kcp-kcp-zheng-frontproxy-front-proxy"}
    assert [name.split("-kcp-")[-1] for name in programs(typing / "alpha" / "units")] == [
        "zheng-alpha-shard-kcp"
    ]
