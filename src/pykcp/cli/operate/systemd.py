"""`kcp up --systemd`: files and units are written, systemd runs the programs."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcp.programs.operator.drivers.systemd.user import SystemdUser
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.settings import UpSettings
    from pykcp.programs.operator.host.systemd import SystemdHost


def up_with_systemd(settings: UpSettings) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.systemd.user import find_user, own_directory
    from pykcp.programs.operator.host.control import is_running
    from pykcp.programs.operator.host.systemd import SystemdHost

    options, root = settings.up, settings.generic.root_directory.absolute()
    user = find_user(options.systemd_user)
    if is_running(root):
        raise SettingsError(
            f"a supervisor runs the programs of {root}, which those of systemd cannot run beside; "
            f"stop it with: kcp down --root-directory={root}"
        )
    own_directory(root, user)
    installation = _installation(settings, user)
    host = SystemdHost(installation, pathlib.Path(options.systemd).absolute(), user)
    is_done = host.run_until_done(options.timeout) if options.systemd_wait else host.run_once()
    _print(host, options.systemd)
    return 0 if is_done or not options.systemd_wait else 1


def _installation(settings: UpSettings, user: SystemdUser | None) -> Installation:
    from pykcp.cli.operate.up import choose
    from pykcp.programs.operator.drivers.systemd.user import acting_as, check_program
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.layout import HostFiles

    with acting_as(user):
        check_program(user)
        files = HostFiles(settings.generic.make_root())
        choices = choose(settings, files)
        installation = Installation(files, choices)
        installation.check()
        files.save_choices(choices)
    return installation


def _print(host: SystemdHost, directory: str) -> None:
    """What systemd is to be told, and what cannot be done before its programs run."""
    print(f"{len(host.written)} of {host.count} units have changed in {directory}")
    if host.surplus:
        print(f"systemctl disable --now {' '.join(host.surplus)}")
    if host.written or host.surplus:
        print("systemctl daemon-reload")
    names = [name for unit in host.written.values() for name in unit.instances]
    if names:
        print(f"systemctl enable {' '.join(names)}")
    for name in names:
        print(f"systemctl restart {name}")
    for one in host.reports:
        if not one.is_available:
            print(f"not ready yet: {one.name}")
    for name, text in host.waiting.items():
        print(f"waiting: {name}: {text}")
