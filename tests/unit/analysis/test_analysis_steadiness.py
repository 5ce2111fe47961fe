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
    assert flag["name"] == "not_steady"
    assert ("slower" in flag["detail"]) == (rise > 1)


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
