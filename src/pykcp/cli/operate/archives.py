"""`kcp export` and `kcp import`: a workload moves to another host."""

from __future__ import annotations

import getpass
import pathlib
import sys
import time
from typing import TYPE_CHECKING

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.programs.kit.flags import Flag

if TYPE_CHECKING:
    from pykcp.programs.operator.compiled import CompiledWorkload

_PASSPHRASE = Flag(
    "passphrase-file",
    "string",
    "",
    "File whose first line is the passphrase; asked for if not given.",
)


def _passphrase(given: Given) -> bytes:
    from pykcp.programs.kit.errors import SettingsError

    path = given.flags["passphrase-file"]
    if path:
        lines = pathlib.Path(path).read_text().splitlines()
        return (lines[0] if lines else "").encode()
    if not sys.stdin.isatty():
        raise SettingsError("--passphrase-file is required: there is no terminal to ask for it")
    return getpass.getpass("Passphrase: ").encode()


def _export(given: Given) -> int:
    from pykcp.auth.files import write_private
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.archive import WorkloadArchive, read_data, seal
    from pykcp.programs.operator.host.deliveries import delivery_keys, root_servers
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.layout import HostChoices, HostFiles

    files = HostFiles(given.root)
    configured = Installation(files, files.choices() or HostChoices()).configure(
        time.time(), saves=False
    )
    everything = [*configured.local, *configured.remote]
    wanted = [one for one in everything if _is_named(one, given.words)]
    if not wanted:
        names = ", ".join(one.name for one in everything) or "none"
        raise SettingsError(f"no such workload; there are: {names}")
    data = {}
    if given.flags["data"]:
        for one in wanted:
            if one in configured.local and _is_served(given, one):
                raise SettingsError(
                    f"{one.name} is running here: set its annotation operator.kcp.io/host to the "
                    "other host, call kcp up with --host, and export it then"
                )
            if one.data_directory and pathlib.Path(one.data_directory).is_dir():
                data[one.name] = read_data(pathlib.Path(one.data_directory))
    keys = delivery_keys(files, wanted)
    servers = root_servers(wanted, configured.world)
    archive = WorkloadArchive(str(files.root), tuple(wanted), data, keys, time.time(), servers)
    output = pathlib.Path(given.flags["output"] or f"{wanted[0].owner.name}.kcp-export")
    write_private(output, seal(archive, _passphrase(given)))
    print(f"wrote {output}: {', '.join(one.name for one in wanted)}")
    return 0


def _is_named(workload: CompiledWorkload, words: list[str]) -> bool:
    names = (workload.name, workload.owner.name, f"{workload.owner.kind}/{workload.owner.name}")
    return any(word in names for word in words)


def _is_served(given: Given, workload: CompiledWorkload) -> bool:
    from pykcp.cli.operate.status import read_status
    from pykcp.programs.operator.drivers.process.identity import identify

    status, _ = read_status(given.root)
    return any(
        identify(replica["pid"]) is not None
        for one in status["workloads"]
        if one["name"] == workload.name
        for replica in one["replicas"]
        if replica["pid"]
    )


EXPORT = HostCommand(
    "Write a workload with everything that it needs to an encrypted archive, for another host.\n\n"
    "Usage:\n  kcp export WORKLOAD… [flags]\n",
    _export,
    (
        Flag("output", "string", "", "File to write."),
        Flag("data", "bool", False, "Include its data: the workload must not be running here."),
        _PASSPHRASE,
    ),
    {"o": "output"},
    least=1,
)


def _import(given: Given) -> int:
    from pykcp.programs.operator.host.archive import install, unseal
    from pykcp.programs.operator.host.deliveries import accept_keys
    from pykcp.programs.operator.host.layout import HostFiles

    sealed = pathlib.Path(given.words[0]).read_bytes()
    archive = unseal(sealed, _passphrase(given))
    files = HostFiles(given.root)
    files.make()
    names = install(archive, files)
    accept_keys(archive, files)
    print(f"imported {', '.join(names)}; start with: kcp up --root-directory={given.root}")
    return 0


IMPORT = HostCommand(
    "Bring a workload of `kcp export` to this host; `kcp up` runs it.\n\n"
    "Usage:\n  kcp import ARCHIVE [flags]\n",
    _import,
    (_PASSPHRASE,),
    least=1,
    most=1,
)
