"""In which order a plan measures its cells: blocks, rounds, cases, arms.

A *block* is one visit of a setting: switched to, proven, measured, left. Every setting is visited
several times, in sweeps of random order, so that neither a drift of the machine nor what a
setting leaves behind falls on one arm of a comparison; or each directly after each other one once,
which tells the two apart (an order balanced for carry-over; Williams, Australian Journal of
Scientific Research A 2, 1949). A cell that needs no setting, and with
it the baseline, is measured in every block in which a cell of its case needs the setting, or in all
where none of its case ever needs one: no comparison is made across a switch. A *round* has
every cell of its block once: cases in random order, and the arms of a case one after the other, in
random order, since what is measured one right after the other differs least by chance
(randomised complete blocks; Montgomery, Design and Analysis of Experiments, chapter 4). Where the
testbed is built several times, the repetitions are spread over these *rebuilds*, each of which has
blocks of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

C = TypeVar("C")

# A setting is visited this often unless an experiment states it, and never more often than it has
# repetitions to spread over its visits.
VISITS = 3
BALANCED: Literal["balanced"] = "balanced"
Visits = int | Literal["balanced"]  # of each setting; or each directly after each other one


@dataclass(frozen=True)
class Arm(Generic[C]):
    """A cell to be scheduled, the setting that it needs ('' for none), and the case it is of."""

    cell: C
    setting: str
    case: str


@dataclass(frozen=True)
class Turn(Generic[C]):
    """One measurement of a cell, and where it stands in the plan. All numbers count from 1."""

    block: int
    setting: str
    round: int  # within its block
    position: int  # within its round
    sweep: int  # rounds of the whole plan: everything in one sweep runs on the same hosts
    rebuild: int  # of the testbed; 0 where it is built once
    repetition: int  # of this cell, in the whole plan
    cell: C


def schedule(
    arms: Sequence[Arm[C]], repeats: int, visits: Visits, order: random.Random, rebuilds: int = 1
) -> list[Turn[C]]:
    """Every turn of a plan, in the order in which they are taken.

    A cell that needs a setting has `repeats` turns, spread over the visits of its setting. A cell
    that needs none has as many in each of its blocks as the block has rounds. In a balanced order
    every visit has a round, and the setting that begins has a visit more.
    """
    turns: list[Turn[C]] = []
    seen: dict[int, int] = {}
    sweep, measured = 0, settings_of(arms)
    every = of_rebuilds(arms, repeats, visits, order, rebuilds)
    for block, (rebuild, setting, rounds) in enumerate(every, 1):
        here = [n for n, settings in enumerate(measured) if setting in settings]
        for number in range(1, rounds + 1):
            sweep += 1
            for position, index in enumerate(_round(arms, here, order), 1):
                seen[index] = seen.get(index, 0) + 1
                place = (block, setting, number, position, sweep)
                turns.append(Turn(*place, rebuild, seen[index], arms[index].cell))
    return turns


def of_rebuilds(
    arms: Sequence[Arm[C]], repeats: int, visits: Visits, order: random.Random, rebuilds: int
) -> Iterator[tuple[int, str, int]]:
    """Each block's rebuild (0 where the testbed is built once), setting and number of rounds.

    A setting is visited on every rebuild, and as often as was asked for where those are fewer.
    """
    own = visits if visits == BALANCED else -(-visits // rebuilds)
    for number, rounds in enumerate(shares(repeats, rebuilds), 1):
        rebuild = number if rebuilds > 1 else 0
        yield from ((rebuild, *block) for block in blocks(arms, rounds, own, order))


def settings_of(arms: Sequence[Arm[C]]) -> list[set[str]]:
    """For each arm the settings in whose blocks it is measured; {''} where there are no settings.

    >>> settings_of([Arm("host", "", "x"), Arm("vxlan", "vxlan", "x"), Arm("alone", "", "y")])
    [{'vxlan'}, {'vxlan'}, {'vxlan'}]
    """
    every = {arm.setting for arm in arms} - {""} or {""}
    of_case: dict[str, set[str]] = {}
    for arm in arms:
        of_case.setdefault(arm.case, set()).update({arm.setting} - {""})
    return [{arm.setting} if arm.setting else of_case[arm.case] or every for arm in arms]


def blocks(
    arms: Sequence[Arm[C]], repeats: int, visits: Visits, order: random.Random
) -> Iterator[tuple[str, int]]:
    """Each block's setting and number of rounds. Without settings there is one block."""
    settings = sorted({arm.setting for arm in arms} - {""})
    if not settings:
        yield "", repeats
    elif visits == BALANCED:
        rounds = -(-repeats // max(1, len(settings) - 1))
        yield from ((setting, rounds) for setting in circuit(settings, order))
    else:
        yield from sweeps(settings, repeats, visits, order)


def circuit(settings: Sequence[str], order: random.Random) -> list[str]:
    """A random walk with each setting directly after each other one once; it ends where it began.

    It is an Eulerian circuit of the complete directed graph (Hierholzer, Mathematische Annalen 6,
    1873).

    >>> circuit(["host-gw", "udp"], random.Random(1))
    ['host-gw', 'udp', 'host-gw']
    """
    left = {
        one: order.sample(rest := [s for s in settings if s != one], len(rest)) for one in settings
    }
    walk, closed = [order.choice(settings)], []
    while walk:
        if left[walk[-1]]:
            walk.append(left[walk[-1]].pop())
        else:
            closed.append(walk.pop())
    return closed[::-1]


def sweeps(
    settings: Sequence[str], repeats: int, visits: int, order: random.Random
) -> Iterator[tuple[str, int]]:
    """Each visit's setting and number of rounds, all settings once in each sweep."""
    last = ""
    for rounds in shares(repeats, visits):
        sequence = order.sample(settings, len(settings))
        # A setting that ends one sweep does not begin the next: that would be no new visit.
        if sequence[0] == last and len(sequence) > 1:
            sequence.append(sequence.pop(0))
        yield from ((setting, rounds) for setting in sequence)
        last = sequence[-1]


def shares(repeats: int, visits: int) -> list[int]:
    """The rounds of each visit: `repeats` in as many equal shares as there are visits.

    >>> shares(5, 3)
    [2, 2, 1]
    """
    visits = min(visits, repeats)
    least, more = divmod(repeats, visits)
    return [least + (n < more) for n in range(visits)]


def _round(arms: Sequence[Arm[C]], here: list[int], order: random.Random) -> list[int]:
    """The arms of one round: cases shuffled, and in each case its arms."""
    cases: dict[str, list[int]] = {}
    for index in here:
        cases.setdefault(arms[index].case, []).append(index)
    shuffled = order.sample(sorted(cases), len(cases))
    return [index for case in shuffled for index in order.sample(cases[case], len(cases[case]))]
