"""`kcp up --systemd`: files and units are written, systemd runs the programs."""

from __future__ import annotations

import pathlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.settings import UpOptions


def write_units(installation: Installation, options: UpOptions) -> int:
    from pykcp.auth.files import ensure_directory, write_public
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.commands import InstalledPrograms
    from pykcp.programs.operator.drivers.process.materialize import materialize
    from pykcp.programs.operator.drivers.systemd.units import renewal_units, workload_units

    root, directory = installation.files.root, pathlib.Path(options.systemd).absolute()
    configured = installation.configure(time.time())
    if configured.problems:
        raise SettingsError("\n".join(configured.problems))
    programs = InstalledPrograms(root / "versions")
    commands = {one.name: programs.command(one) for one in configured.local}
    for one in configured.local:
        materialize(one.files)
        materialize(file for step in one.init for file in step.files)
        if one.data_directory:
            ensure_directory(pathlib.Path(one.data_directory))
    namespace = configured.manifests.namespace
    again = [
        sys.executable, "-m", "pykcp", "up", f"--root-directory={root}", f"--systemd={directory}",
        *([f"--systemd-user={options.systemd_user}"] if options.systemd_user else []),
    ]  # fmt: skip
    units = [
        *workload_units(configured.local, commands, namespace, str(root), options.systemd_user),
        *renewal_units(namespace, again),
    ]
    changed = []
    for unit in units:
        path = directory / unit.name
        if not path.exists() or path.read_text() != unit.text:
            write_public(path, unit.text.encode())
            changed.append(unit)
    print(f"{len(changed)} of {len(units)} units have changed in {directory}")
    if changed:
        names = [name for unit in changed for name in unit.instances]
        print("systemctl daemon-reload")
        print(f"systemctl enable {' '.join(names)}")
        for name in names:
            print(f"systemctl restart {name}")
    return 0
