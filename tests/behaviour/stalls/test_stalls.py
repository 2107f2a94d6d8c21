"""Whatever one tenant sends, another tenant's requests are answered in time.

What is asserted is the longest stretch of CPU time that the event loop spent without looking at
anybody else, which no other load on the machine can prolong. The delays of an innocent tenant are
asserted with a wide margin only: `bench/run stalls` measures them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from stalls import ATTACKS, FLEET_ATTACKS
from stalls_answers import problem, unknown
from stalls_attacker import SECONDS, Attack, Attacker
from stalls_innocent import Innocent, part
from stalls_places import Place
from stalls_run import busy_buckets, longest_busy, usage

LONGEST_CPU = 250.0
"""Milliseconds on the loop: two and a half times the rule for the slowest GET."""
LONGEST_GET = 2500.0
GROWTH = 250.0
"""MiB of memory that all attacks together may leave behind."""

NAMES = (
    "path of 80,000 segments, no credentials",
    "40,000 owner references",
    "200,000 finalizers",
    "200,000 unknown fields, strict",
    "200,000 duplicate keys, strict",
    "3 MB of invalid JSON",
    "YAML alias bomb",
    "$setElementOrder of 8,000",
    pytest.param("apply of 100,000 keys, by four managers", marks=pytest.mark.slow),
    "pattern ^((a?){30}){30}$",
    "CEL matches (a|a)*b",
    "100,000 type errors in a custom object",
    "CRD of 3,000 versions",
    pytest.param("CRD of 30,000 properties", marks=pytest.mark.slow),
    "CRD with one rule of 5,000 &&",
    "cluster role of 1000×1000×1000",
    "300 names against 20,000 rules",
    "20,000 warrants in a review",
    "label selector of 15,000 terms",
    "webhook patch that copies 2.9 MB 400 times",
    "policy over 20,000 keys, twice nested",
    "schema of 1,000 CEL rules created, bound and used",
    "export with 10,000 permission claims",
    "view of 11,000 resources and claims, no credentials",
    "writes of objects that 16,000 claims cover",
    pytest.param("16 bindings of 1 MB, one of them touched", marks=pytest.mark.slow),
    "10 bound schemas of 1.5 MB, listed as JSON and YAML",
    "clones with bodies of 2 MB",
    "kubeconfigs of 60 KB",
    "cluster that floods watches",
    "770 defaults in each of 10,840 empty elements",
    "reads of 2 MB of an earlier schema",
    "96 table watches of a dense object",
)

BY_NAME = {attack.name: attack for attack in ATTACKS}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place("pykcp", tmp_path_factory.mktemp("stalls") / "server", is_peer=False)
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def memory_before(place: Place) -> float:
    return usage(place).memory


async def _carry_out(script: Any) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            await anext(script, None)
    except TimeoutError:
        pass  # a server that lets an attacker wait does well


async def _attack(place: Place, attack: Attack) -> tuple[float, float, float]:
    """The longest stretch on the loop, the longest GET, and by how much this process was late."""
    number = next(_numbers)
    rooms = [place.make_room(f"attack-{number}-{n}", "attacker") for n in range(2)]
    attacker = Attacker(place, rooms)
    await attacker.open()
    script = attack.script(attacker)
    innocent = Innocent(place, place.make_room("innocent", "innocent"))
    try:
        await anext(script)
        await innocent.open()
        before = busy_buckets(place)
        is_over = asyncio.Event()
        sampling = asyncio.create_task(innocent.sample(is_over.is_set))
        await _carry_out(script)
        is_over.set()
        delays = await sampling
        assert not problem(attack.name, attacker.outcome.statuses), attacker.outcome
        assert not delays.lost, "the innocent tenant's watch missed an event"
        assert not delays.failures
        busy = longest_busy(before, busy_buckets(place))
    finally:
        await innocent.close()
        await script.aclose()
        await attacker.close()
    return busy, part(delays.gets, 1), part(delays.late, 1)


def test_answers_are_expected_of_attacks_that_exist() -> None:
    assert not unknown([attack.name for attack in (*ATTACKS, *FLEET_ATTACKS)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NAMES)
async def test_others_do_not_wait(place: Place, memory_before: float, name: str) -> None:
    if not place.is_alive():
        place.restart()
    busy, longest, late = await _attack(place, BY_NAME[name])
    assert busy <= LONGEST_CPU, place.stall_lines()[-3:]
    assert longest < max(LONGEST_GET, 10 * late), place.stall_lines()[-3:]


def test_nothing_is_kept(place: Place, memory_before: float) -> None:
    """After all of the attacks above."""
    assert usage(place).memory - memory_before < GROWTH
