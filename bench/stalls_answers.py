"""The answers that attacks are to get: with any other, a row would test nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_DONE = frozenset(("200", "201"))
_PUT_OFF = frozenset(("429", "reset", "still going"))
"""A server may make attackers wait; but not only that."""
FRONT_PROXY = "front-proxy: "
"""Attacks that go through a front-proxy; those that are made without one, too, have the same answers."""
RECEIVED = "requests that the cluster received"

_ANSWERS: dict[str, tuple[str, ...]] = {
    "path of 8,000 segments, no credentials": ("403",),
    "path of 80,000 segments, no credentials": ("414",),
    "150,000 bad labels": ("422",),
    "150,000 labels with bad values": ("422",),
    "150,000 bad annotations": ("422",),
    "200,000 bad finalizers": ("422",),
    "200,000 unknown fields, strict": ("400",),
    "200,000 duplicate keys, strict": ("400",),
    "3 MB of invalid JSON": ("400",),
    "JSON nested 500,000 deep": ("400",),
    "500 KB of flow YAML": ("400",),
    "YAML alias bomb": ("400",),
    "JSON patch that copies 200 KB 400 times": ("422",),
    "merge patch nested 9,000 deep": ("400",),
    "merge patch nested 500,000 deep": ("400",),
    "pattern ^((a?){30}){30}$": ("201", "422"),
    "CEL matches ^((a?){30}){30}$": ("201", "422"),
    "pattern (a|a)*b": ("201", "422"),
    "CEL matches (a|a)*b": ("201", "422"),
    "100,000 type errors in a custom object": ("422",),
    "50 defaults in each of 20,000 elements": ("413",),
    "770 defaults in each of 10,840 empty elements": ("413",),
    "a set of 200,000 equal numbers": ("422",),
    "a map of 100,000 equal elements": ("422",),
    "CEL over 1,000,000 pairs": ("201", "422"),
    "cluster role of 50×50×50": ("403",),
    "cluster role of 1000×1000×1000": ("403",),
    "300 names against 20,000 rules": ("403",),
    "rules review of 20,000 rules": ("201", "404"),
    "3 MB of unknown fields in reviews": ("413",),
    "impersonation with 150 extra headers": ("403",),
    "CRD with one rule of 5,000 parentheses": ("200", "422"),
    "CRD with a rule of 100,000 list elements": ("200", "422"),
    "CRD nested 400 deep": ("200", "400"),
    "policy over 20,000 keys, twice nested": ("201", "422"),
    "policy of 100 variables, each twice the one before": ("201", "422"),
    "webhook patch that copies 2.9 MB 400 times": ("500",),
    "webhook patch that doubles 30 times": ("500",),
    "webhook patch nested 5,000 deep": ("500",),
    "webhook patch of 60,000 operations": ("500",),
    "GET flood for what is missing": ("404",),
    "pods of 20,000 containers, judged by limits and levels": ("201", "422"),
    "services of 50,000 ports and 300,000 families": ("200", "201", "422", "500"),
    "5,000 creates under a quota": ("201", "403"),
    "creates under a quota of 10,000 names": ("201", "422"),
    "clones with bodies of 2 MB": ("403", "413"),
    "console in a loop, 256 streams": ("200", "404"),
    "sign-in of the console with bodies of 2 MB": ("400",),
    "pages of /debug in a loop, 64 streams": ("403",),
    "options and scales in 500 KB of flow YAML": ("413",),
    "options and scales in YAML with an alias bomb": ("413",),
    "policy of 300 questions to the authorizer": ("422",),
    "a Placement of 5,000 terms and 500 workloads": ("201", "422"),
    "reviews in 500 KB of flow YAML": ("400", "422"),
    "view of 11,000 resources and claims, no credentials": ("403",),
    "initializer with 100,000 permissions": ("403",),
    "16 bindings of 1 MB, one of them touched": ("200", "404"),
    "front-proxy: workspaces that do not exist, 256 streams": ("403",),
    "front-proxy: paths of 2,000 segments, 64 streams": ("403",),
    "100 slow readers of a list of 17 MB": (),
    "256 paged lists with closed windows in four rooms": (),
    "800 lists of 17 MB with closed windows": (),
    "800 lists of 17 MB, windows of one octet": (),
    "1,900 connections closed at once": (),
    "400 connections closed before a handshake": (),
}
"""Every answer is one of these, and each of them occurs. Without an entry every request succeeds,
and floods below HTTP have no answers."""


def problem(name: str, statuses: Mapping[str, int]) -> str:
    """What is wrong with the answers to an attack; "" if they are as expected."""
    name = name if name in _ANSWERS else name.removeprefix(FRONT_PROXY)
    if name.startswith("flood: ") or _ANSWERS.get(name) == ():
        return ""
    if RECEIVED in statuses and not statuses[RECEIVED]:
        return "the cluster was never asked"
    got = set(statuses) - _PUT_OFF - {RECEIVED}
    wanted = set(_ANSWERS.get(name, ()))
    if unexpected := got - (wanted or _DONE):
        return f"unexpected answers: {', '.join(sorted(unexpected))}"
    if missing := wanted - got:
        return f"no answer {' nor '.join(sorted(missing))}"
    return "" if got else "no request was carried out"


def unknown(names: Iterable[str]) -> set[str]:
    """Entries of the table above for which there is no attack."""
    return set(_ANSWERS) - set(names)
