"""Trials of Apptainer: what holds under every runtime, and what is Apptainer's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from strata.runtimes.apptainer import installation
from strata.trial import slot as trial

from tests.integration import test_trials
from tests.integration.test_trials import (  # noqa: F401 - collected here, for another runtime
    nothing_is_left,
    present,
    pytest_generate_tests,
    pytestmark,
    test_a_failure_is_a_record_with_its_cause,
    test_a_trial_is_measured,
    test_an_image_that_is_not_there_is_a_failed_start,
    test_it_ends_with_its_controller,
    test_it_is_unprivileged_and_its_root_is_read_only,
    test_it_runs_on_the_cpus_it_is_given,
    test_no_other_account_reads_what_a_trial_is_given,
    test_what_a_killed_trial_left_is_removed_by_the_next,
    test_who_used_the_cpus_is_told_apart,
)

RUNTIMES = ("apptainer",)


@pytest.fixture
def without_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "fuse", lambda: False)


def test_without_fuse_it_runs_from_the_unpacked_image(
    order: Callable[..., trial.Order], without_fuse: None
) -> None:
    assert installation.fingerprint()["apptainer.image"] == "sandbox"
    (outcome,) = trial.run(order("apptainer"), present)
    assert outcome["record"]["status"] == "ok", outcome["stderr"]


def test_a_client_and_a_server_of_one_trial_meet_and_write_to_scratch(
    order: Callable[..., trial.Order],
    with_pair: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_fuse: None,
) -> None:
    """From the unpacked image, in which the workload of the tests is."""
    own = test_trials.test_a_client_and_a_server_of_one_trial_meet_and_write_to_scratch
    own(order, with_pair, tmp_path, monkeypatch, "apptainer", "host")
