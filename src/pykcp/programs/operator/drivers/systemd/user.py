"""The user of the units: what is written below the root directory belongs to them.

The process acts as that user while it works there. To write as root and change the owner later
would leave a moment in which a program cannot read its renewed certificate; and root would follow
the links of a directory in which another user may place any.
"""

from __future__ import annotations

import os
import pathlib
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pykcp.programs.kit.errors import SettingsError


class SystemdUser(NamedTuple):
    name: str
    uid: int
    gid: int


def find_user(name: str) -> SystemdUser | None:
    """None if nothing has to be done as somebody else. Raises SettingsError."""
    if not name:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SettingsError(
            f"--systemd-user: user {name} does not exist; make it with: "
            f"useradd --system --no-create-home --shell=/usr/sbin/nologin {name}"
        ) from None
    if found.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise SettingsError(f"--systemd-user={name}: only root can write files for another user")
    return SystemdUser(name, found.pw_uid, found.pw_gid)


@contextmanager
def acting_as(user: SystemdUser | None) -> Iterator[None]:
    """Read, write and connect with the rights of a user, and of nobody else."""
    if user is None:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    os.setgroups(os.getgrouplist(user.name, user.gid))
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def own_directory(root: pathlib.Path, user: SystemdUser | None) -> None:
    """Make the root directory, and what root wrote in it before, the user's. Raises SettingsError."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if user is None or root.stat().st_uid == user.uid:
            return
        if root.stat().st_uid != 0:
            raise SettingsError(f"{root} belongs to another user than {user.name}")
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                os.chown(pathlib.Path(folder) / name, user.uid, user.gid, follow_symlinks=False)
        # Last, so that a change that was interrupted is made again.
        os.chown(root, user.uid, user.gid)
    except OSError as error:
        raise SettingsError(f"--root-directory: {error}") from error


def check_program(user: SystemdUser | None) -> None:
    """Units cannot start what their user cannot read. Raises SettingsError. Call it as the user."""
    program = pathlib.Path(sys.executable)
    if user is not None and not os.access(program, os.X_OK, effective_ids=True):
        raise SettingsError(
            f"user {user.name} cannot run {program}, which the units are to start: install kcp "
            "where everybody can read it, /opt/kcp for instance"
        )
