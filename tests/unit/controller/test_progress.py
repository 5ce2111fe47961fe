"""What a run says of itself while it goes on."""

from __future__ import annotations

from controller import progress

PLATFORM = {"substrate": "vm", "runtime": "docker", "network": "vxlan"}


def test_a_cell_is_named_by_those_factors_that_its_workload_has() -> None:
    run = {"factors": ["network", "workload", "direction", "workers"]}
    levels = {**PLATFORM, "workload": "request_response", "workers": 1}
    assert progress.name(levels, run) == "vm/docker/vxlan request_response workers 1"
