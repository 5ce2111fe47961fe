"""Which measured windows are called unsteady."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis import steadiness


def frame(durations: np.ndarray, trial: str = "a-r1", warmup: int = 0) -> pd.DataFrame:
    count = len(durations)
    return pd.DataFrame(
        {
            "trial": trial,
            "step": np.arange(1, count + 1),
            "phase": ["warmup"] * warmup + ["measured"] * (count - warmup),
            "worker": 0,
            "items": 8,
            "duration_s": durations,
        }
    )


def noise(count: int, seed: int = 0, spread: float = 0.03) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0, spread, count)


def steady(steps: pd.DataFrame) -> bool:
    return bool(steadiness.judge(steps)["steady"].iloc[0])


def test_noise_alone_is_steady() -> None:
    unsteady = sum(not steady(frame(noise(count, seed, 0.1))) for seed in range(100)
                   for count in (15, 30, 100))  # fmt: skip
    assert unsteady <= 6


@pytest.mark.parametrize("rise", [1.2, 0.8])
def test_a_window_that_drifts_is_flagged_with_how_much(rise: float) -> None:
    judged = steadiness.judge(frame(noise(100) * np.linspace(1, rise, 100)))
    assert not judged["steady"].iloc[0]
    flag = steadiness.flags(judged).iloc[0]
    assert flag["name"] == "no_steady_state"
    assert ("slower" in flag["detail"]) == (rise > 1)
    assert judged["drift"].iloc[0] == pytest.approx(rise - 1, abs=0.05)


def test_steps_of_one_length_that_do_less_and_less_are_flagged() -> None:
    steps = frame(noise(100, spread=0.001))
    steps["items"] = np.linspace(3000, 2000, 100).astype(int)
    flag = steadiness.flags(steadiness.judge(steps)).iloc[0]
    assert "slower" in flag["detail"]
    steps["items"] = 0
    assert steady(steps), "nothing was done, evenly"


def test_a_drift_of_little_size_is_left_in_peace() -> None:
    assert steady(frame(noise(1000, spread=0.001) * np.linspace(1, 1.03, 1000)))


def test_single_slow_steps_do_not_decide() -> None:
    durations = noise(60)
    durations[[50, 55, 58]] *= 20
    assert steady(frame(durations))


def test_warm_up_is_no_part_of_the_window() -> None:
    assert steady(frame(np.concatenate([np.full(30, 9.0), noise(60)]), warmup=30))


def test_few_steps_are_not_judged() -> None:
    judged = steadiness.judge(frame(np.linspace(1, 9, 14)))
    assert not judged["judged"].iloc[0]
    assert steadiness.flags(judged).empty


def test_the_slowest_worker_makes_the_step() -> None:
    slow = frame(noise(60) * np.linspace(1, 2, 60)).assign(worker=1)
    assert not steady(pd.concat([frame(noise(60) * 0.5), slow]))


def test_without_steps_nothing_is_judged() -> None:
    judged = steadiness.judge(pd.DataFrame())
    assert judged.empty
    assert steadiness.flags(judged).empty


def correlated(count: int, correlation: float, spread: float, seed: int) -> np.ndarray:
    """Steps of which each follows the one before (a stationary AR(1) of their logarithms)."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=count + 100)
    for at in range(1, len(logs)):
        logs[at] = correlation * logs[at - 1] + np.sqrt(1 - correlation**2) * logs[at]
    return np.exp(spread * logs[100:])


def flagged(windows: list[np.ndarray]) -> float:
    """The share of windows that are not called steady."""
    return float(np.mean([not steady(frame(window)) for window in windows]))


@pytest.mark.parametrize("correlation", [0.6, 0.9])
@pytest.mark.parametrize("count", [15, 30, 100])
def test_steps_that_follow_each_other_are_steady(count: int, correlation: float) -> None:
    windows = [correlated(count, correlation, 0.1, seed) for seed in range(200)]
    assert flagged(windows) < 0.05


@pytest.mark.parametrize("dwell", [1, 2, 4])
def test_a_host_of_two_levels_is_not_flagged_by_chance(dwell: int) -> None:
    """It changes its level after so many steps on average, by a third."""
    windows = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        at = np.cumsum(rng.random(100) < 1 / dwell) + rng.integers(2)
        slow = at % 2 if dwell > 1 else rng.integers(2, size=100)
        windows.append(np.where(slow, 1.33, 1.0) * noise(100, seed))
    assert flagged(windows) < 0.05


@pytest.mark.parametrize("count", [15, 30, 100])
def test_a_slow_middle_third_is_found_and_said_where(count: int) -> None:
    windows = [noise(count, seed, 0.02) for seed in range(100)]
    third = count // 3
    for window in windows:
        window[third : 2 * third] *= 1.3
    assert flagged(windows) > 0.9
    (row,) = steadiness.judge(frame(windows[-1])).to_dict("records")
    assert row["state"] == "not_steady"
    assert row["detail"].endswith("slower than the others")
    assert row["drift"] == pytest.approx(0.3, abs=0.1)


def test_a_window_that_is_not_steady_without_its_slow_stretch_either_has_no_steady_state() -> None:
    levels = np.repeat([1.0, 1.0, 1.0, 1.2, 4.0, 4.0], [17, 17, 17, 17, 16, 16])
    (row,) = steadiness.judge(frame(noise(100) * levels)).to_dict("records")
    assert (row["state"], row["steady"]) == ("no_steady_state", False)


def test_single_slow_steps_are_told_and_stay() -> None:
    durations = noise(60)
    durations[[50, 55, 58]] *= 20
    judged = steadiness.judge(frame(durations))
    (flag,) = steadiness.flags(judged).to_dict("records")
    assert (flag["name"], flag["detail"][:19]) == ("outliers", "3 of 60 measured st")


def test_steps_without_any_noise_are_steady_or_not() -> None:
    assert steady(frame(np.full(30, 0.25)))
    assert not steady(frame(np.repeat([1.0, 1.2, 1.0], 10)))


def of_a_cell(first: np.ndarray, rest: list[np.ndarray]) -> bool:
    """Whether the first of a cell's windows is called steady."""
    steps = [frame(window, f"a-r{n}") for n, window in enumerate([first, *rest], 1)]
    cells = {f"a-r{n}": "a" for n in range(1, len(steps) + 1)}
    return bool(steadiness.judge(pd.concat(steps), cells)["steady"].iloc[0])


def slow_middle(count: int, seed: int, spread: float) -> np.ndarray:
    window = noise(count, seed, spread)
    window[count // 3 : 2 * count // 3] *= 1.2
    return window


@pytest.mark.parametrize(("count", "least"), [(15, 0.6), (30, 0.95)])
def test_the_trials_of_a_cell_know_their_noise_together(count: int, least: float) -> None:
    """A third 20 % slower at 5 % of noise, which a window of few steps by itself does not tell."""
    found = [
        not of_a_cell(
            slow_middle(count, seed, 0.05),
            [noise(count, 100 * seed + n, 0.05) for n in range(1, 6)],
        )
        for seed in range(1, 41)
    ]
    assert np.mean(found) >= least
    few = [not of_a_cell(slow_middle(15, seed, 0.05), [noise(15, seed)]) for seed in range(1, 31)]
    assert np.mean(few) < 0.3, "two trials know no more than each by itself"


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_windows_of_a_cell_that_are_alike_are_steady(correlation: float) -> None:
    windows = [[correlated(30, correlation, 0.1, 10 * seed + n) for n in range(6)]
               for seed in range(50)]  # fmt: skip
    assert np.mean([not of_a_cell(own[0], own[1:]) for own in windows]) < 0.07
