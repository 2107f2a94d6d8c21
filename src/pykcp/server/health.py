"""/livez, /readyz and /healthz: named checks, alone or together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykcp.aio import owner
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound, send_text
from pykcp.wire.exchange import Header

Check = Callable[[], str | None]
"""None when well, otherwise one line saying what is wrong."""


_FAIR: tuple[Header, ...] = (
    ("x-kubernetes-pf-flowschema-uid", "6ad4c7a1-5f0e-5d1b-9d3e-0a4c8f1e7b20"),
    ("x-kubernetes-pf-prioritylevel-uid", "0f2b9c64-1c8a-5e37-8f55-7d6e2a9b3c41"),
)
"""What kubectl and Helm look for in the answer of `/livez/ping`: without it they limit themselves
to a few requests a second, since nothing else would."""


class Health:
    """The health checks of a process; `ready` has those that apply after startup."""

    def __init__(self, *, is_fair: bool = False) -> None:
        """`is_fair`: API fairness is on, so that clients need not limit their own rate."""
        self._headers = _FAIR if is_fair else ()
        self._live: dict[str, Check] = {"ping": lambda: None, "log": lambda: None}
        self._ready: dict[str, Check] = {"tasks": owner.problem}
        self._start: dict[str, Check] = {}
        self._pending: set[str] = set()
        self.is_draining = False

    def await_hook(self, name: str) -> None:
        """Neither ready nor healthy until `finish_hook` is called with the same name."""
        self._pending.add(name)
        self._start[f"poststarthook/{name}"] = lambda: (
            "not finished" if name in self._pending else None
        )

    def finish_hook(self, name: str) -> None:
        self._pending.discard(name)

    def add(self, name: str, check: Check, *, only_ready: bool = False) -> None:
        (self._ready if only_ready else self._live)[name] = check

    def checks(self, endpoint: str) -> dict[str, Check]:
        if endpoint == "readyz":
            return {**self._live, **self._start, **self._ready, "shutdown": self._shutdown}
        if endpoint == "healthz":
            return {**self._live, **self._start}
        return {**self._live}

    def names(self) -> list[str]:
        """Every path that answers, for the index of paths."""
        out = []
        for endpoint in ("healthz", "livez", "readyz"):
            out.append(f"/{endpoint}")
            out += [f"/{endpoint}/{name}" for name in sorted(self.checks(endpoint))]
        return out

    def _shutdown(self) -> str | None:
        return "process is shutting down" if self.is_draining else None

    def handle(self, call: Call) -> None:
        endpoint, slash, name = call.info.path.lstrip("/").partition("/")
        checks = self.checks(endpoint)
        if slash:
            self._one(call, checks, name)
            return
        excluded = set(call.info.query.get("exclude", ()))
        lines, failed = _run(checks, excluded)
        unknown = excluded - set(checks)
        if unknown:
            lines.append(
                "warn: some health checks cannot be excluded: no matches for "
                + ", ".join(f'"{u}"' for u in sorted(unknown))
            )
        if failed:
            text = "\n".join(lines) + f"\n{endpoint} check failed\n"
            send_text(call, text, 500)
        elif "verbose" in call.info.query:
            send_text(call, "\n".join(lines) + f"\n{endpoint} check passed\n")
        else:
            send_text(call, "ok")

    def _one(self, call: Call, checks: dict[str, Check], name: str) -> None:
        check = checks.get(name)
        if check is None:
            raise PageNotFound
        problem = check()
        if problem is None:
            send_text(call, "ok", more=self._headers if name == "ping" else ())
        else:
            send_text(call, f"internal server error: {problem}\n", 500)


def _run(checks: dict[str, Check], excluded: set[str]) -> tuple[list[str], Sequence[str]]:
    lines, failed = [], []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        problem = check()
        if problem is None:
            lines.append(f"[+]{name} ok")
        else:
            # Details are only logged, because health paths are public.
            failed.append(name)
            lines.append(f"[-]{name} failed: reason withheld")
    return lines, failed
