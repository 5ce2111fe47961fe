"""What tools of the distribution say is read right, and what they do not say is no silent zero."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workloads
from tests.conftest import REPO
from workloads import _storage as storage
from workloads import dd, fio, hpl, ioping, memory_bandwidth, sysbench
from workloads._options import BadInputError
from workloads._output import Context, FailureError, StepLog
from workloads._tool import OutputError, Process, Text, Tool, tell_steps
from workloads.sysbench import output

RECORDED = REPO / "tests/data/tools"
VERSIONS = {
    "sysbench": ("sysbench 1.0.20", output.KNOWN),
    "dd": ("dd (coreutils) 9.1", dd.KNOWN),
    "mbw": ("mbw 1.2.2-1.1", memory_bandwidth.KNOWN),
    "hpcc": ("hpcc 1.5.0-3", hpl.KNOWN),
}


def said(name: str) -> str:
    return (RECORDED / name).read_text()


def text(name: str, change: tuple[str, str] = ("", "")) -> Text:
    """A recording, with some of it changed."""
    before, after = change
    found = said(name)
    assert before in found
    return Text(
        *VERSIONS[name.partition("_")[0]], found.replace(before, after) if before else found
    )


def options(name: str, **given: Any) -> Any:
    return workloads.options(name).parse(given)


def test_all_figures_of_the_tables_are_in_a_report_of_sysbench() -> None:
    found = output.parse(text("sysbench_cpu_events.txt"), "cpu").figures()
    assert found == pytest.approx(
        {
            **{"rate": 2000 / 2.784, "total_time": 2.784, "event_time": 5.55745},
            **{"latency_min": 0.39e-3, "latency_mean": 2.778725e-3, "latency_max": 44.37e-3},
            **{"latency_p95": 15.27e-3, "thread_events_mean": 1000, "thread_events_std": 13},
            **{"thread_time_mean": 2.7787, "thread_time_std": 0},
        }
    )


def test_what_a_test_of_sysbench_moves_is_in_bytes() -> None:
    memory = output.parse(text("sysbench_memory.txt"), "memory").figures()
    assert memory["bandwidth"] == 3081.33 * 2**20
    assert memory["bandwidth"] == pytest.approx(1024 * memory["rate"], rel=0.03)
    reads = output.parse(text("sysbench_fileio_rndrd.txt"), "fileio").figures()
    assert (reads["reads"], reads["bandwidth"]) == (53886.84, 841.98 * 2**20)
    assert "writes" not in reads and "fsyncs" not in reads, "what it does not do is no figure"
    both = output.parse(text("sysbench_fileio_rndrw.txt"), "fileio").figures()
    assert both["reads"] / both["writes"] == pytest.approx(1.5, rel=1e-3)
    assert both["bandwidth"] == pytest.approx(16384 * (both["reads"] + both["writes"]), rel=1e-3)


def test_a_latency_that_sysbench_rounds_to_nothing_is_left_out() -> None:
    found = output.parse(text("sysbench_memory.txt"), "memory").figures()
    assert "latency_min" not in found and "latency_p95" not in found
    assert found["latency_mean"] == pytest.approx(1.84428 / 6324909)
    assert found["latency_max"] == 34.84e-3


@pytest.mark.parametrize(
    ("name", "test", "change", "line"),
    [
        ("cpu", "cpu", ("General statistics:", "Statistics:"), "'General statistics:'"),
        ("cpu", "cpu", ("total time:", "time:"), "'total time:'"),
        ("cpu", "cpu", ("2.0056s", "2.0056ms"), "'total time:'; given: total time: .*2.0056ms"),
        ("cpu", "cpu", ("events:              1549", "events: 0"), "0 events in"),
        ("cpu", "cpu", ("95th percentile", "99th percentile"), "'95th percentile:'"),
        ("cpu", "cpu", ("3971.14", "nan"), "'sum:'; given: sum: +nan"),
        ("cpu", "cpu", ("1.9856/0.02", "1.9856"), "'execution time .avg/stddev.:'"),
        ("memory", "memory", ("MiB transferred", "MB moved"), "'MiB transferred'"),
        ("fileio_rndrw", "fileio", ("fsyncs/s", "syncs/s"), "'fsyncs/s:'"),
        ("fileio_rndrw", "fileio", ("written, MiB/s", "written, MB/s"), "'written, MiB/s:'"),
        ("cpu", "fileio", ("", ""), "'File operations:'"),
    ],
)
def test_another_output_of_sysbench_is_refused_with_the_line(
    name: str, test: Any, change: tuple[str, str], line: str
) -> None:
    given = text(f"sysbench_{name}.txt", change)
    with pytest.raises(OutputError, match=line) as error:
        output.parse(Text("sysbench 2.1", given.known, given.said), test)
    assert str(error.value).startswith("sysbench 2.1: its output must have the line ")
    assert str(error.value).endswith("Known is the output of sysbench 1.0.20")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("randread", {"queue_depth": 8}),
        ("randrw", {"pattern": "randrw", "direct": False, "engine": "psync", "jobs": 2}),
        ("write", {"pattern": "write"}),
    ],
)
def test_figures_of_fio_are_those_of_its_report(name: str, given: dict[str, Any]) -> None:
    chosen, recorded = options("fio", **given), said(f"fio_{name}.json")
    found, job = fio.parse("fio-3.33", recorded, chosen), json.loads(recorded)["jobs"][0]
    went = fio.ways(chosen)
    assert went == {"randread": ("read",), "randrw": ("read", "write"), "write": ("write",)}[name]
    for way in went:
        latency = {key: 1e9 * found[f"{way}_latency_{key}"] for key in ("mean", "p99", "max")}
        assert latency["mean"] == pytest.approx(job[way]["lat_ns"]["mean"])
        assert latency["p99"] == pytest.approx(job[way]["lat_ns"]["percentile"]["99.000000"])
        assert latency["max"] == pytest.approx(job[way]["lat_ns"]["max"])
        requests = job[way]["total_ios"] / job[way]["runtime"] * 1000
        assert found[f"{way}_requests"] == pytest.approx(requests)
    assert found["requests"] == sum(job[way]["iops"] for way in went)
    assert found["bandwidth"] == sum(job[way]["bw_bytes"] for way in went)
    assert not any(key.startswith(way) for way in {"read", "write"} - {*went} for key in found)


@pytest.mark.parametrize(
    ("path", "to", "key"),
    [
        (("fio version",), "fio-3.99", "fio version: it must be fio-3.33; given: fio-3.99"),
        (("jobs", 0, "error"), 5, "jobs.0.error: it must be 0"),
        (("jobs", 0, "read"), None, "jobs.0.read.total_ios: it is missing"),
        (("jobs", 0, "read", "total_ios"), 0, "there must be requests"),
        (("jobs", 0, "read", "lat_ns", "percentile"), None, "percentile.50.000000: it is missing"),
        (("jobs", 0, "read", "iops"), "many", "jobs.0.read.iops: it must be a number"),
        (("jobs", 0, "read", "bw_bytes"), -1, "at least 0; given: -1"),
        (("disk_util",), [{"name": "vda"}], "disk_util.0.util: it is missing"),
    ],
)
def test_another_output_of_fio_is_refused_with_the_key(
    path: tuple[Any, ...], to: Any, key: str
) -> None:
    document = json.loads(said("fio_randread.json"))
    found = document
    for name in path[:-1]:
        found = found[name]
    if to is None:
        del found[path[-1]]
    else:
        found[path[-1]] = to
    with pytest.raises(OutputError, match=key) as error:
        fio.parse("fio-3.33", json.dumps(document), options("fio"))
    assert str(error.value).startswith("fio-3.33: its output must have the key ")


def test_a_device_that_the_kernel_counts_says_how_busy_it_was() -> None:
    document = json.loads(said("fio_randread.json"))
    document["disk_util"] = [{"name": "dm-0", "util": 40.0}, {"name": "vda", "util": 97.5}]
    found = fio.parse("fio-3.33", json.dumps(document), options("fio"))
    assert found["device_busy"] == 0.975


@pytest.mark.parametrize("name", ["latency", "cached", "direct"])
def test_figures_of_ioping_are_of_the_requests_that_count(name: str) -> None:
    recorded = said(f"ioping_{name}.json")
    found, count = ioping.parse("ioping 1.3", recorded)
    stat = json.loads(recorded)[0]["stat"]
    assert count == stat["count"] == json.loads(recorded)[0]["load"]["count"] - 1
    assert found["latency_mean"] == pytest.approx(stat["time"] / count * 1e-9, rel=1e-3)
    assert found["latency_min"] < found["latency_mean"] < found["latency_max"]
    assert found["requests"] == pytest.approx(count / (stat["time"] * 1e-9))
    assert found["bandwidth"] == pytest.approx(4096 * found["requests"])
    assert found["latency_std"] == stat["mdev"] * 1e-9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "must be JSON; given, in line 1"),
        ("4 KiB <<< . (ext4): request=1\n", "must be JSON; given, in line 1: '4 KiB"),
        ("{}", "must be a list of one"),
        ("[]", "must be a list of one"),
        ('[{"stat": {"count": 0}}]', "stat.count: there must be requests"),
        ('[{"stat": {"count": 9}}]', "stat.avg: it is missing. Known is the output of ioping 1.3"),
    ],
)
def test_another_output_of_ioping_is_refused(given: str, words: str) -> None:
    with pytest.raises(OutputError, match=words) as error:
        ioping.parse("ioping 0.9", given)
    assert str(error.value).startswith("ioping 0.9: ")


@pytest.mark.parametrize(
    ("name", "size", "seconds"),
    [
        ("1MiB", 2**20, 0.00532041),
        ("100MiB", 100 * 2**20, 0.22195),
        ("512MiB", 2**29, 1.03076),
        ("1GiB", 2**30, 2.03269),
    ],
)
def test_seconds_of_dd_are_those_that_it_wrote(name: str, size: int, seconds: float) -> None:
    assert dd.parse(text(f"dd_{name}.txt"), size) == seconds


@pytest.mark.parametrize(
    "change",
    [
        ("1048576 bytes", "524288 bytes"),
        ("bytes (1.0 MB, 1.0 MiB) copied", "octets copies"),
        ("0.00532041 s", "0,00532041 s"),
        ("0.00532041 s", "0 s"),
    ],
)
def test_another_output_of_dd_is_refused(change: tuple[str, str]) -> None:
    with pytest.raises(OutputError, match=r"^dd \(coreutils\) 9.1: its output must have the line"):
        dd.parse(text("dd_1MiB.txt", change), 2**20)


def test_copies_of_mbw_are_all_counted() -> None:
    chosen = options("memory_bandwidth", array_size=64 * 2**20, runs=3)
    rates, seconds = memory_bandwidth.parse(text("mbw_memcpy.txt"), chosen)
    assert [rate / 2**20 for rate in rates] == pytest.approx(
        [868.951, 1202.872, 1121.017], rel=1e-4
    )
    assert seconds == pytest.approx(3 * 0.06132, rel=1e-3)
    for given in ({"runs": 4}, {"method": "loop"}, {"array_size": 2**25}):
        other = options("memory_bandwidth", **({"array_size": 64 * 2**20, "runs": 3} | given))
        with pytest.raises(OutputError, match=r"^mbw 1.2.2-1.1: its output must have the line"):
            memory_bandwidth.parse(text("mbw_memcpy.txt"), other)


def test_the_last_cache_is_the_largest(tmp_path: Path) -> None:
    assert memory_bandwidth.last_cache(tmp_path) == 0
    for number, size in enumerate(("48K", "2048K", "36M")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}/size").write_text(f"{size}\n")
    assert memory_bandwidth.last_cache(tmp_path) == 36 * 2**20


def test_a_solution_of_hpl_is_timed_and_its_residual_is_small() -> None:
    found = hpl.parse(text("hpcc_1000.txt"), options("hpl", order=1000))
    assert found == pytest.approx(
        {
            **{"flops": 1.73353e9, "solve_time": 0.385437, "residual": 0.0058274},
            **{"dgemm_flops": 1.68132e9, "of_dgemm": 1.73353 / 1.68132, "triad": 26.181e9},
        }
    )
    assert found["flops"] * found["solve_time"] == pytest.approx(hpl.work(1000), rel=1e-3)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("0.0058274 ...... PASSED", "17.2 ...... FAILED"), "'..Ax-b.._oo/'; given: .*FAILED"),
        (("Success=1", "Success=0"), "'HPL_N=1000'; given: HPL_N=1000, Success=0"),
        (("HPL_N=1000", "HPL_N=999"), "'HPL_N=1000'; given: HPL_N=999"),
        (("HPL_Tflops=0.00173353", "HPL_Tflops=0"), "'HPL_Tflops='; given: flops is 0"),
        (("SingleDGEMM_Gflops", "DGEMM_Gflops"), "'SingleDGEMM_Gflops='"),
        (("Begin of Summary", "Summary"), "'Begin of Summary section.'"),
        (("Benchmark version 1.5.0", "Benchmark"), "'HPC Challenge Benchmark version'"),
    ],
)
def test_what_is_no_solution_of_hpl_is_refused(change: tuple[str, str], line: str) -> None:
    with pytest.raises(OutputError, match=line) as error:
        hpl.parse(text("hpcc_1000.txt", change), options("hpl", order=1000))
    assert str(error.value).startswith("hpcc 1.5.0-3: its output must have the line ")


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made() -> None:
    meminfo = "MemTotal:       24000000 kB\nMemAvailable:   16000000 kB\n"
    hpl._check_memory(options("hpl", order=40_000), meminfo)
    with pytest.raises(FailureError, match=r"order: 45000 needs 18.9 GiB .*order: 40477.; .* 15.3"):
        hpl._check_memory(options("hpl", order=45_000), meminfo)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("hpl", {"order": 99}, "order: must be at least 100"),
        ("hpl", {"order": 100}, "block: must be at most 100"),
        ("sysbench", {"duration": 0}, "a test needs an end"),
        ("sysbench", {"test": "disk"}, "test: must be one of cpu, memory, threads, fileio"),
        ("sysbench", {"threads": 1025}, "threads: must be at most 1024"),
        ("sysbench", {"storage": "volume"}, "only the test fileio has files"),
        ("sysbench", {"test": "fileio", "file_total_size": 2**20}, "every file must hold a block"),
        ("sysbench", {"cpu_max_primes": 3}, "unknown option .did you mean cpu_max_prime"),
        ("fio", {"engine": "psync", "queue_depth": 2}, "psync makes one request at a time"),
        ("fio", {"direct": False, "queue_depth": 2}, "direct must be true"),
        ("fio", {"block_size": 1000}, "a multiple of 512"),
        ("fio", {"file_size": 1024}, "a file must hold a block"),
        ("fio", {"read_share": 101}, "read_share: must be at most 100"),
        ("fio", {"pattern": "randreed"}, "did you mean randread"),
        ("dd", {"size": 100}, "must be a multiple of the block size, 65536"),
        ("dd", {"direct": True, "block_size": 100, "size": 100}, "a multiple of 512 bytes"),
        ("dd", {"storage": "bind"}, "storage: must be one of disk, volume, layer, tmpfs"),
        ("ioping", {"requests_asked": 1}, "requests_asked: must be at least 2"),
        ("ioping", {"request_size": 2**21}, "the file must hold a request"),
        ("memory_bandwidth", {"array_size": 2**20 + 1}, "must be whole MiB"),
    ],
)
def test_what_a_tool_cannot_do_is_refused(name: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        options(name, **given)


def test_options_become_the_command_line() -> None:
    line = " ".join(sysbench.arguments(options("sysbench", events=10, duration=0), 8))
    assert line == (
        "sysbench cpu --threads=8 --time=0 --events=10 --percentile=95 --rand-seed=1 "
        "--cpu-max-prime=10000"
    )
    memory = sysbench.arguments(options("sysbench", test="memory", events=10), 8)
    assert "--events=0" in memory and "--memory-total-size=10737418240" in memory
    files = sysbench.arguments(options("sysbench", test="fileio", file_direct=True), 1)
    assert {"--file-test-mode=rndrw", "--file-extra-flags=direct"} <= {*files}
    asked = " ".join(fio.arguments(options("fio", queue_depth=16, jobs=2), "/x", "/y"))
    assert "--directory=/x --rw=randread --bs=4096 --iodepth=16 --numjobs=2 --direct=1" in asked
    assert "--percentile_list=50:90:95:99:99.9 " in asked and "--output=/y" in asked
    line = " ".join(dd.arguments(options("dd", size=2**20)))
    assert line == "dd if=/dev/zero of=bigfile bs=65536 count=16 conv=fdatasync"
    assert {"oflag=direct"} < {*dd.arguments(options("dd", sync="none", direct=True))}
    tests = [ioping.arguments(options("ioping", test=name)) for name in ioping.FLAGS]
    assert [" ".join(one).split(" -s ")[0] for one in tests] == [
        "ioping -q -J -c 10 -i 1s",
        "ioping -q -J -C -R -w 5s",
        "ioping -q -J -D -R -w 5s",
    ]
    asked = hpl.INPUT.format(order=5000, block=128, alignment=16).splitlines()
    assert [asked[n].split()[0] for n in (5, 7, 30)] == ["5000", "128", "16"]
    copies = memory_bandwidth.arguments(options("memory_bandwidth", method="blocks"))
    assert copies == ["mbw", "-q", "-n", "20", "-t2", "256"]


@pytest.mark.parametrize("name", ["sysbench", "fio", "dd", "ioping", "memory_bandwidth", "hpl"])
def test_a_tool_that_the_image_lacks_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context(name, tmp_path, steps, scratch=tmp_path)
        with pytest.raises(FailureError, match=r"is not in the image: requirements/images/tools"):
            workloads.workload(name).run(options(name), context)
    with pytest.raises(FailureError, match="iperf3 is not in the image"):
        Process(["iperf3"], tmp_path, "tools")


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """A program of that name that does what a line of Python says."""

    def make(does: str) -> str:
        path = tmp_path / "toy"
        path.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{does}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_tool_runs_in_the_folder_and_says_what_it_is(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    toy = program("print('toy 7.1' if sys.argv[1:] else pathlib.Path.cwd())")
    tool = Tool.find(toy, "tools", "toy 7.0", ask=[toy, "--version"])
    assert (tool.version, tool.known) == ("toy 7.1", "toy 7.0")
    for silent in (["/nowhere"], [sys.executable, "-c", "raise SystemExit('no such package')"]):
        unknown = Tool.find(toy, "tools", "toy 7.0", ask=silent)
        assert unknown.version == f"{toy}, of an unknown version"
    done = tool.run([toy], tmp_path)
    assert done.stdout == f"{tmp_path}\n" and done.seconds > 0
    assert tool.text("").version == "toy 7.1"


def test_a_tool_that_fails_is_named_with_its_version_and_its_last_words(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    toy = program("print('toy 7.1'); sys.exit(sys.argv[1:] == ['run'] and 'no room\\nat all')")
    tool = Tool.find(toy, "tools", "toy 7.0", ask=[toy, "--version"])
    with pytest.raises(
        OutputError, match=r"^toy 7.1: `.*toy run` ended with status 1: no room / at all$"
    ):
        tool.run([toy, "run"], tmp_path)
    bad = RECORDED / "sysbench_bad_option.txt"
    sysbench_1 = Tool("sysbench", "sysbench 1.0.20", "sysbench 1.0.20")
    with pytest.raises(OutputError, match=r"1.0.20: .*invalid option: --cpu-max-primes=3$"):
        sysbench_1.run(["sh", "-c", f"cat {bad}; exit 1"], tmp_path)
    with pytest.raises(OutputError, match=r"line 'rate:'; given: no output. Known is .* toy 7.0$"):
        tool.text("").number("rate:", r"rate: (\d+)")


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("fio", fio.KNOWN, "fio: unrecognized option '--lat_percentages=1' / "),
        ("ioping", ioping.KNOWN, "ioping: unrecognized option '--cashed' / "),
        ("dd", dd.KNOWN, "dd: invalid conversion: \u2018fdatasink\u2019"),
    ],
)
def test_an_option_that_a_tool_does_not_have_is_told_in_its_words(
    name: str, version: str, words: str, tmp_path: Path
) -> None:
    bad = RECORDED / f"{name}_bad_option.txt"
    with pytest.raises(OutputError) as error:
        Tool(name, version, version).run(["sh", "-c", f"cat {bad} >&2; exit 1"], tmp_path)
    assert f"ended with status 1: {words}" in str(error.value)
    assert str(error.value).startswith(f"{version}: ")


def test_an_option_that_mbw_passes_over_is_an_error(tmp_path: Path) -> None:
    """It measures, and ends with status 0; in its stead a program that says what it said."""
    mbw = Tool("mbw", *VERSIONS["mbw"])
    recorded = [RECORDED / name for name in ("mbw_memcpy.txt", "mbw_bad_option.txt")]
    said = mbw.run(["sh", "-c", f"cat {recorded[0]}; cat {recorded[1]} >&2"], tmp_path)
    with pytest.raises(OutputError, match=r"^mbw 1.2.2-1.1: mbw: invalid option -- 'z'$"):
        mbw.must_not_complain(said)
    mbw.must_not_complain(mbw.run(["cat", str(recorded[0])], tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        ("0\tMethod: MEMCPY", "0\tMethod: MEMMOVE"),
        ("MiB: 64.00000", "MB: 67.10886"),
        ("MiB: 64.00000", "MiB: 32.00000"),
        ("Elapsed: ", "Time: "),
    ],
)
def test_another_output_of_mbw_is_refused_with_the_line(change: tuple[str, str]) -> None:
    chosen = options("memory_bandwidth", array_size=64 * 2**20, runs=3)
    with pytest.raises(OutputError, match=r"have the line '\d Method: MEMCPY'; given: ") as error:
        memory_bandwidth.parse(text("mbw_memcpy.txt", change), chosen)
    assert str(error.value).endswith("Known is the output of mbw 1.2.2")


def test_what_a_tool_measured_is_one_step_at_the_end_of_its_run(tmp_path: Path) -> None:
    toy = Tool("toy", "toy 7.1", "toy 7.0")
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("toy", tmp_path, steps)
        mark = context.mark("first_step_begin")
        done = toy.run([sys.executable, "-c", "pass"], tmp_path)
        tell_steps(context, done, 7, done.seconds / 2)
        context.marks["first_step_begin"] = done.begin
        tell_steps(context, done, 7, done.seconds * 2)
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    told = [(row["step"], row["phase"], row["items"]) for row in rows]
    assert told == [(1, "warmup", 0), (2, "measured", 7), (1, "measured", 7)]
    for row in (rows[1], rows[2]):
        assert row["mono"] + row["duration_s"] == pytest.approx(done.begin + done.seconds, abs=1e-6)
    assert rows[0]["mono"] == pytest.approx(mark, abs=1e-6)
    assert mark + rows[0]["duration_s"] == pytest.approx(rows[1]["mono"], abs=1e-6)


MOUNTINFO = """\
22 1 254:0 / / ro,nosuid - ext4 /dev/vda rw
30 22 0:26 / /run rw - tmpfs tmpfs rw,mode=755
31 30 254:0 /spool /run/scratch rw,nosuid - ext4 /dev/vda rw
32 22 0:44 / /run/scr\\040atch rw - overlay overlay rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/out", "ext4"),
        ("/run", "tmpfs"),
        ("/run/scratchy", "tmpfs"),
        ("/run/scratch/file", "ext4"),
        ("/run/scr atch", "overlay"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert storage.file_system(Path(path), MOUNTINFO) == kind


DISKSTATS = """\
 {0} {1} vda 5 3 245 74 50 32 769 43 0 {2} 122 26 2 64 26 10 8
 7 0 loop0 1 4 57 47 21 31 60 11 0 39 17 0 0 0 0 6 10
"""


def test_how_long_the_device_of_a_folder_was_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path.stat().st_dev
    counts = tmp_path / "diskstats"
    monkeypatch.setattr(storage, "DISKSTATS", counts)
    device = storage.Device(tmp_path)
    counts.write_text(DISKSTATS.format(os.major(own), os.minor(own), 2500))
    assert device.busy() == 2.5
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("dd", tmp_path, steps, metrics=dd.METRICS)
        counts.write_text(DISKSTATS.format(250, 1, 2500))
        storage.tell_busy(context, device.busy(), 2.0)
        assert context.scalars == {}, "what nobody counts is no zero"
        storage.tell_busy(context, 0.5, 2.0)
    assert context.scalars["device_busy"]["value"] == 0.25


def test_files_that_are_not_where_they_should_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("22 1 254:0 / / rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(storage, "MOUNTS", mounts)
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("dd", tmp_path, steps, scratch=tmp_path)
        assert storage.folder(context, "tmpfs") == tmp_path
        assert context.environment == {"file_system": "tmpfs"}
        with pytest.raises(FailureError, match="volume was asked for; its files would be on tmpfs"):
            storage.folder(context, "volume")
        with pytest.raises(FailureError, match="no scratch space"):
            storage.folder(Context("dd", tmp_path, steps), "disk")
