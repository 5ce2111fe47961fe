"""The playbooks from outside: order, refusals, and a second run that changes nothing."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.host import lease

from tests.conftest import (
    EXPERIMENTS,
    LOCAL,
    PATIENCE_S,
    REPO,
    changed,
    environment,
    playbook,
)

STAGES = ["preflight", "provision", "deploy", "run", "collect", "report"]
SPIN = f"-estrata_experiment={EXPERIMENTS}/spin.yml"


def ansible(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", *arguments],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "path", ["site.yml", *sorted(f"playbooks/{p.name}" for p in (REPO / "playbooks").glob("*.yml"))]
)
def test_syntax(path: str) -> None:
    done = ansible(path, *LOCAL, "--syntax-check")
    assert done.returncode == 0, done.stderr


def test_site_imports_the_stages_in_order_and_nothing_else() -> None:
    plays = yaml.safe_load((REPO / "site.yml").read_text())
    imported = [Path(play["ansible.builtin.import_playbook"]).stem for play in plays]
    assert imported == STAGES
    assert all(set(play) == {"name", "ansible.builtin.import_playbook", "tags"} for play in plays)


def test_nothing_but_checks_comes_before_the_lease() -> None:
    """And the making of hosts that are not there yet, which nobody can hold."""
    done = ansible("site.yml", *LOCAL, "--list-tasks")
    tasks = [line.split("TAGS")[0].strip() for line in done.stdout.splitlines() if "TAGS" in line]
    lease = next(i for i, task in enumerate(tasks) if task.startswith("lease : Hold the host"))
    before = [task for task in tasks[:lease] if "Validating" not in task and "play #" not in task]
    assert before == [
        "Refuse settings that nobody reads",
        "Make the plan",
        "Ask the host what it is and has",
        "Ask its provider what can be had",
        "Make the plan",
        "Check what the settings need",
        "Make those that have a provider, and look at them",
        "Check what the settings need of those that were made",
    ]


def test_deploying_prolongs_the_lease_between_its_long_steps() -> None:
    """It is for an hour, and an emulated host took longer to get to its first trial."""
    done = ansible("site.yml", *LOCAL, "--list-tasks")
    deploying = done.stdout.split("Put the same bits on every host")[1].split("play #")[0]
    tasks = [line.split("TAGS")[0].strip() for line in deploying.splitlines() if "TAGS" in line]
    holds = "lease : Hold the host for this run"
    steps = ["Have what the settings need", "Hold the same images everywhere"]
    steps += ["Hold the same data everywhere", "lease : Let go of the host"]
    seen = [task for task in tasks if task in (holds, *steps)]
    assert seen == [steps[0], holds, steps[1], holds, steps[2], holds, steps[3]]


def test_the_lab_is_refused_until_it_is_edited() -> None:
    done = ansible("site.yml", "-i", "lab")
    assert done.returncode != 0
    assert "no host in the group 'testbed'" in done.stdout
    assert "inventories/lab/hosts.yml" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # By the names of all settings, by the roles' specifications, with what the host says.
        (["-estrata_slcie=smoke"], ["no setting 'strata_slcie'", "did you mean 'strata_slice'"]),
        (['-e{"strata_retry": ["hostlost"]}'], ["strata_retry", "host_lost", "hostlost"]),
        (["-estrata_state_dir=/"], ["localhost: Strata's state folder must", "given: / holds "]),
    ],
)
def test_bad_settings_are_refused_before_anything_is_touched(
    arguments: list[str], words: list[str], tmp_path: Path
) -> None:
    done = playbook("site.yml", f"-estrata_results={tmp_path}/results", *arguments, check=False)
    assert done.returncode != 0
    for word in words:
        assert word in done.stdout
    assert changed(done.stdout) == 0
    assert list(tmp_path.iterdir()) == []


FAMILIES = {"strata_experiment": f"{EXPERIMENTS}/families.yml"}
OCI = {"strata_image": {"kind": "oci", "reference": "x", "suite": "", "workloads": ""}}
UNPLANNED: list[tuple[dict[str, Any], str]] = [
    ({"strata_experiment": "quik"}, "did you mean 'quick'"),
    ({"strata_slice": "smok"}, "did you mean 'smoke'"),
    ({"strata_attempts": 0}, "a trial is tried at least once"),
    ({"strata_results": "/etc/passwd/r"}, "can be made, and written"),
    ({**FAMILIES, **OCI}, "an OCI image takes the place of one image family"),
    ({"strata_dataset": "/nowhere"}, "there is no such folder"),
    ({"strata_run": "../elsewhere"}, "the name of a run is a name"),
    ({"strata_cache": "/etc"}, "example: strata_cache=/srv"),
]
UNSOUND: list[tuple[dict[str, Any], str]] = [
    ({"factors": {"runtime": ["nativ"]}}, "did you mean 'native'"),
    ({"options": {"step": 4}}, "did you mean 'steps'"),
    ({"repeats": "many"}, "repeats: 5"),
    ({"exclude": [{"runtime": "native"}]}, "the design is empty"),
    ({"factors": {"substrate": ["vm", "bare_metal"], "runtime": ["native"]}}, "inventory group"),
    ({"time_budget": "1s"}, "time_budget"),
    ({"disk_budget": "1K"}, "disk_budget"),
    ({"options": {"memory": "900T"}}, "lacks 900 TiB of memory"),
    ({"options": {"cpus": "8191"}}, "lacks CPU 8191"),
]


def test_a_plan_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """One play tries them all, with the task that every command begins with."""
    cases = list(UNPLANNED)
    for number, (change, words) in enumerate(UNSOUND):
        given = {
            **{"name": "bad", "title": "Bad", "workload": "spin", "baseline": {}, "repeats": 1},
            **{"factors": {"runtime": ["native"]}, **change},
        }
        path = tmp_path / f"{number}.yml"
        path.write_text(yaml.safe_dump(given))
        cases.append(({"strata_experiment": str(path)}, words))
    host = {"state_dir": "{{ strata_state_dir }}"}
    check = {"ansible.builtin.import_role": {"name": "strata", "tasks_from": "check"}}
    look = {"strata_host": host, "register": "strata_facts"}
    plan = {"file": str(REPO / "playbooks/tasks/plan.yml"), "apply": {"ignore_errors": True}}
    tried = [
        {
            "name": f"Try case {number}",
            "ansible.builtin.include_tasks": plan,
            "vars": {"strata_answers": {"localhost": "{{ strata_facts }}"}, **variables},
        }
        for number, (variables, _) in enumerate(cases)
    ]
    play = {
        **{"hosts": "localhost", "gather_facts": False, "tasks": [check, look, *tried]},
        "vars": {"strata_root": str(REPO), "strata_results": str(tmp_path / "results")},
    }
    path = tmp_path / "refusals.yml"
    path.write_text(yaml.safe_dump([play]))
    done = playbook(str(path))
    said = done.stdout.split("TASK [Try case ")[1:]
    assert len(said) == len(cases)
    wrong = {words: text for (_, words), text in zip(cases, said, strict=True) if words not in text}
    assert not wrong, "\n".join(wrong.values())
    assert all("FAILED" in text for text in said)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("setting", "given"),
    [("strata_state_dir", {}), ("strata_cache", {"strata_state_dir": "none"})],
)
def test_teardown_refuses_a_users_folder_before_anything_is_touched(
    setting: str, given: dict[str, str], tmp_path: Path
) -> None:
    """As it was given to a run that had found its disk too small."""
    for name in ("thesis", "images"):
        (tmp_path / "bigdisk" / name / "chapter").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    more = [f"-e{name}={tmp_path}/{value}" for name, value in given.items()]
    done = playbook("playbooks/teardown.yml", f"-e{setting}={tmp_path}/bigdisk", *more, check=False)
    assert done.returncode != 0
    assert f"given: {tmp_path}/bigdisk holds 'images', 'thesis' and no marker" in done.stdout
    assert changed(done.stdout) == 0
    assert "Take the engines apart" not in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_an_inventory_in_which_a_key_stands_twice_is_refused(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("native: {hosts: {a: }}\nnative: {hosts: {b: }}\n")
    done = ansible("playbooks/preflight.yml", "-i", str(inventory))
    assert done.returncode != 0
    assert "Found duplicate mapping key 'native'" in done.stderr


def test_an_inventory_without_a_needed_group_is_refused(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("testbed: {children: {native: {hosts: {localhost: }}}}\n")
    done = ansible("site.yml", "-i", str(inventory), SPIN, f"-estrata_results={tmp_path}/r")
    assert done.returncode != 0
    assert "needs a host in the inventory group 'docker'" in done.stdout


@pytest.mark.root
@pytest.mark.docker
@pytest.mark.image
class TestDeployed:
    """On a machine that has been deployed once."""

    def test_a_second_run_changes_nothing(self, deployed: None) -> None:
        assert changed(playbook("site.yml", "--tags=deploy", SPIN).stdout) == 0

    def test_check_mode_changes_nothing(self, deployed: None, tmp_path: Path) -> None:
        playbook("site.yml", "--check", "--diff", SPIN, f"-estrata_results={tmp_path}/r")
        assert not (tmp_path / "r").exists()

    def test_what_the_user_sees_and_two_runs_at_once_are_refused(
        self, deployed: None, tmp_path: Path
    ) -> None:
        first = subprocess.Popen(
            ["ansible-playbook", "site.yml", *LOCAL, SPIN, f"-estrata_results={tmp_path}/1"],
            cwd=REPO,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(lambda: list((tmp_path / "1").glob("*/trials/*")) != [])
            second = playbook("site.yml", SPIN, f"-estrata_results={tmp_path}/2", check=False)
            assert second.returncode != 0
            assert "is held by another run" in second.stdout
            assert changed(second.stdout) == 0
            assert not (tmp_path / "2").exists()
            again = playbook("site.yml", SPIN, f"-estrata_results={tmp_path}/1", check=False)
            assert again.returncode != 0, "nor may the same command run beside itself"
            assert "is held by another" in again.stdout
        finally:
            said = first.communicate()[0]
        assert first.returncode == 0, said
        lines = said.splitlines()
        begun = [line for line in lines if line.startswith("trial ")]
        assert len(begun) == 12
        assert "of 12" in begun[0]
        assert "(left: about" in begun[0]
        assert sum("hashes/s" in line for line in lines) >= 12
        assert any("measured / wall" in line for line in lines)
        assert any(line.strip().endswith("index.html") for line in lines)
        assert "Run the trial" not in said, "the tasks of a slot are not shown"

    def test_the_report_is_part_of_a_run_and_results_of_others_are_refused(
        self, deployed: None, tmp_path: Path
    ) -> None:
        """Of another experiment, and of a newer schema."""
        mine = [f"-estrata_results={tmp_path}", "-estrata_run=mine"]
        where = [*mine, "-estrata_slice=native"]
        playbook("site.yml", SPIN, *where)
        # As a kill right after the last record leaves it.
        before = fingerprint(tmp_path)
        journal = tmp_path / "mine" / "journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        assert ['"closed"' in lines[-2], '"reported"' in lines[-1]] == [True, True]
        journal.write_text("".join(lines[:-2]))
        shutil.rmtree(tmp_path / "mine/report")
        again = playbook("site.yml", SPIN, *where)
        assert "what is left is its report" in again.stdout
        assert (tmp_path / "mine/report/index.html").exists()
        after = fingerprint(tmp_path)
        assert {path for path in after if after[path] != before.get(path)} == {str(journal)}
        done = playbook("site.yml", SPIN, *mine, check=False)
        assert done.returncode != 0
        assert "results of another experiment" in done.stdout
        assert fingerprint(tmp_path) == after
        path = tmp_path / "mine" / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
        done = playbook("site.yml", SPIN, *where, check=False)
        assert done.returncode != 0
        assert "newer Strata" in done.stdout

    def test_a_run_by_tags_is_whole_but_for_its_report(
        self, deployed: None, tmp_path: Path
    ) -> None:
        where = [SPIN, f"-estrata_results={tmp_path}", "-estrata_run=mine", "-estrata_slice=native"]
        journal, page = tmp_path / "mine/journal.jsonl", tmp_path / "mine/report/index.html"

        def events() -> list[str]:
            return [json.loads(line)["event"] for line in journal.read_text().splitlines()]

        playbook("site.yml", *where, "--tags=run")
        first = events()
        assert first[-1] == "closed" and first.count("slot_finished") == 2
        assert not page.exists()
        playbook("site.yml", *where, "--tags=provision,run")
        assert events().count("slot_finished") == 2, "nothing is measured again"
        assert not page.exists()
        playbook("site.yml", *where, "--tags=report")
        assert events()[-1] == "reported" and page.exists()
        assert not (lease.folder() / "lease.json").exists()

    def test_each_trial_runs_from_the_image_of_its_family(
        self, deployed: None, tmp_path: Path
    ) -> None:
        experiment = f"-estrata_experiment={EXPERIMENTS}/families.yml"
        playbook("site.yml", "--tags=run", experiment, f"-estrata_results={tmp_path}")
        (run,) = (json.loads(path.read_text()) for path in tmp_path.glob("*/run.json"))
        records = [json.loads(path.read_text()) for path in tmp_path.glob("*/trials/*/record.json")]
        # On a busy machine the job may have had no turn while the training ran: that one is void.
        assert {record["status"] for record in records} <= {"ok", "void"}, records
        of_workload = {record["levels"]["workload"]: record["image"] for record in records}
        assert [of_workload["spin"], of_workload["tf_image_classification"]] == run["images"]
        assert [image["family"] for image in run["images"]] == ["python", "tensorflow"]
        assert len({image["digest"] for image in run["images"]}) == 2
        assert changed(playbook("site.yml", "--tags=deploy", "--check", experiment).stdout) == 0
        assert changed(playbook("site.yml", "--tags=deploy", SPIN).stdout) == 0, "both stay"

    def test_a_trace_is_kept_with_its_trial_and_told_on_the_page(
        self, deployed: None, tmp_path: Path
    ) -> None:
        experiment = f"-estrata_experiment={EXPERIMENTS}/traced.yml"
        playbook("site.yml", experiment, f"-estrata_results={tmp_path}")
        (run,) = tmp_path.iterdir()
        trials = list(run.glob("trials/*/record.json"))
        assert len(trials) == 2
        for path in trials:
            record = json.loads(path.read_text())
            assert record["status"] == "ok", record["reason"]
            # A CPU's: it has the operations, and no copy to a device.
            traced = {"steps": 2, "devices": []}
            assert record["workload"]["environment"]["trace"] == traced
            assert b"Conv2D" in gzip.decompress((path.parent / "trace.xplane.pb.gz").read_bytes())
            assert not {"h2d_time", "d2h_time", "d2d_time"} & set(record["metrics"])
        page = (run / "report/index.html").read_text()
        assert "the trace has no GPU: nothing is known of copies to one" in page

    def test_a_tampered_dataset_is_refused(self, deployed: None, tmp_path: Path) -> None:
        data = tmp_path / "data"
        for name in ("a/1.jpg", "b/2.jpg"):
            (data / name).parent.mkdir(parents=True)
            (data / name).write_bytes(os.urandom(100))
        smoke = ["-estrata_slice=smoke", f"-estrata_dataset={data}", "--tags=deploy"]
        playbook("site.yml", *smoke)
        (data / "b/2.jpg").write_bytes(os.urandom(100))
        done = playbook("site.yml", *smoke, check=False)
        assert done.returncode != 0
        assert "is not what its manifest says" in done.stdout
        assert "b/2.jpg: its checksum differs" in done.stdout
        for path in (REPO / ".cache/datasets").glob("data.*"):
            path.unlink()


def fingerprint(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file() and "report" not in path.parts]
    return {str(path): path.read_bytes() for path in files}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
