"""Trials of Apptainer: what holds under every runtime, and what is Apptainer's own."""

from __future__ import annotations

from tests.integration.test_trials import (  # noqa: F401 - collected here, for another runtime
    image,
    nothing_is_left,
    order,
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
