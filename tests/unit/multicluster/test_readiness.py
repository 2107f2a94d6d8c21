import pytest

from pykcp.multicluster.readiness import failure

CHECKS = b"""[+]ping ok
[-]etcd failed: reason withheld
[-]poststarthook/start-informers failed: reason withheld
readyz check failed
"""


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (CHECKS, ", failed checks: etcd, poststarthook/start-informers"),
        (b"", ""),
        (b"password: x", ""),
        (b"[-]<b>x</b> failed", ""),
        (b"a [-]etcd failed", ""),
        (b"[-]" + b"x" * 64 + b" failed", ""),
    ],
)
def test_only_names_of_checks_are_shown(body: bytes, shown: str) -> None:
    assert failure(500, body) == f"GET /readyz: status 500{shown}"


def test_not_more_than_eight() -> None:
    body = b"\n".join(b"[-]c%d failed" % number for number in range(100))
    assert failure(503, body).endswith(": " + ", ".join(f"c{number}" for number in range(8)))
