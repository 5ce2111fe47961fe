"""What the rehearsal cloud costs in time, and what is added to what it takes for servers.

    python -m benchmarks.cloud [--servers 4] [--rounds 3]

    up        from nothing to services that answer; the first round installs packages and makes
              what the databases begin with, the others do not
    made      servers asked for, reached and logged into, one and several in turn, in each round
    active    of that, from the first that was asked for to the last that the cloud had made
    added     of that, what was before the first was asked for and after the last let us in
    noop      the same command again, which changes nothing

It needs root and no rehearsal cloud that is there, and leaves none. QEMU emulates the servers' CPUs
on this machine's, so several of them take longer to begin than on a cloud whose servers have CPUs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import openstack
import yaml

from benchmarks.lab import REPO, Lab, changed, line
from controller import ledger
from schema.lives import Life

CLOUD = "strata-rehearsal"
CLOUDS = Path("/var/lib/strata-openstack/clouds.yaml")
EXPERIMENT = REPO / "tests/data/experiments/spin.yml"
# Seconds that are the aim, and a ratio.
UP, RATIO, ADDED = 240, 1.5, 3


class Cloud(Lab):
    """Testbeds of servers on the rehearsal cloud, made from one image."""

    def rehearse(self, *more: str) -> float:
        return self.run("playbooks/rehearse.yml", "-ecloud=openstack", *more)[0]

    def testbed(self, name: str, servers: int, **settings: object) -> Path:
        """An inventory of so many servers, none of which is there."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        hosts = {f"vm{number}": None for number in range(servers)}
        given = {
            **{"strata_provider": "openstack", "openstack_cloud": CLOUD},
            **{"openstack_clouds": str(CLOUDS), "openstack_network": "guests"},
            **{"openstack_memory": 768, "openstack_disk": 4},
            **{"openstack_kernel_arguments": "highres=off", **settings},
        }
        groups = {
            "testbed": {"children": {"native": {"hosts": hosts, "vars": given}}},
            "vm": {"hosts": hosts},
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(groups))
        return folder

    def provision(self, testbed: Path) -> tuple[float, str]:
        given = (f"-estrata_experiment={EXPERIMENT}", "-estrata_slice=native")
        return self.run("site.yml", "-i", str(testbed), "--tags=provision", *given)

    def teardown(self, testbed: Path) -> float:
        return self.run("playbooks/teardown.yml", "-i", str(testbed), "--limit=testbed")[0]


def sole_image() -> str:
    """The name of the one image that the cloud has, after all of its servers were removed."""
    clouds = openstack.config.OpenStackConfig(config_files=[str(CLOUDS)], load_envvars=False)
    cloud = openstack.connection.Connection(config=clouds.get_one(CLOUD))
    for server in cloud.compute.servers():
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server)
    (image,) = cloud.image.images()
    return str(image.name)


def lives(testbed: Path) -> list[Life]:
    return ledger.Ledger(REPO / ".cache", ledger.testbed([str(testbed)])).lives()


@dataclass(frozen=True)
class Made:
    """What some servers took, in seconds."""

    whole: float  # the command
    active: float  # from the first that was asked for to the last that the cloud had made
    reached: float  # the same, to the last that let us in: what the cloud and its guests take
    again: float  # the same command once more

    @property
    def added(self) -> float:
        return self.whole - self.reached


def up(cloud: Cloud, rounds: int) -> None:
    took = []
    for number in range(rounds):
        if number:
            cloud.rehearse("-estate=absent")
        took.append(cloud.rehearse())
    line("up, packages and all", took[:1])
    if took[1:]:
        line("up", took[1:], note=f"at most {UP} is the aim")


def made_once(cloud: Cloud, number: int, image: str) -> Made:
    testbed = cloud.testbed(f"servers{number}", number, openstack_image=image)
    whole, _ = cloud.provision(testbed)
    found = lives(testbed)
    first = min(map(datetime.fromisoformat, (life.asked for life in found)))
    active = max(map(datetime.fromisoformat, (life.active for life in found)))
    reached = max(map(datetime.fromisoformat, (life.reached for life in found)))
    again, said = cloud.provision(testbed)
    if changed(said):
        raise SystemExit(f"a second run changed something:\n{said[-3000:]}")
    cloud.teardown(testbed)
    return Made(whole, (active - first).total_seconds(), (reached - first).total_seconds(), again)


def made(cloud: Cloud, several: int, rounds: int) -> None:
    # A testbed of its own has the image, and no server that would run beside the others.
    first = cloud.testbed("image", 1)
    line("the image, and a first server", [cloud.provision(first)[0]])
    image = sole_image()
    took = [(made_once(cloud, 1, image), made_once(cloud, several, image)) for _ in range(rounds)]
    cloud.teardown(first)
    for number, each in zip((1, several), zip(*took, strict=True), strict=True):
        line(f"made, {number}", [one.whole for one in each])
        line(f"active, {number}", [one.active for one in each])
        line(f"added, {number}", [one.added for one in each], note=f"at most {ADDED} is the aim")
        line(f"noop, {number}", [one.again for one in each], note="changed=0")
    aim = f"at most {RATIO} is the aim"
    line(f"made, {several} / 1", [many.whole / one.whole for one, many in took], "", aim)
    line(f"active, {several} / 1", [many.active / one.active for one, many in took], "", aim)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cloud = Cloud(Path(folder))
        try:
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
            up(cloud, given.rounds)
            made(cloud, given.servers, given.rounds)
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            cloud.rehearse("-estate=absent")


if __name__ == "__main__":
    main()
