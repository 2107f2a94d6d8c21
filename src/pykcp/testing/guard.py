"""`guard.py PID FOLDER`: waits for the end of its standard input, which is that of its parent; then
stops the process and removes the folder, unless the parent did so. Standard library only."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import time

_STOP_SECONDS = 10.0


def main(pid: int, folder: pathlib.Path) -> None:
    sys.stdin.buffer.read()
    if not folder.exists():
        return  # the parent has tidied up
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.05)
            os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
