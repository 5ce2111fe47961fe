"""NVIDIA GPUs of the host: utilisation, memory, and the driver's libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

QUERY = "--query-gpu=index,utilization.gpu,memory.used"
FORMAT = "--format=csv,noheader,nounits"
MIB = 2**20
TIMEOUT_S = 5.0
COLUMNS = 3
# What a CUDA program needs of the driver; everything else is in its own image.
LIBRARIES = (
    "libcuda",
    "libnvidia-ml",
    "libnvidia-ptxjitcompiler",
    "libnvidia-nvvm",
    "libnvidia-gpucomp",
)
BUS = Path("/sys/bus/pci/devices")
DRIVER = Path("/proc/driver/nvidia")


def sample() -> tuple[list[dict[str, float]] | None, float]:
    """Of each GPU: `index`, `utilisation` (0..1), `memory` (bytes); None without NVIDIA's tool.

    None also when the driver does not answer. A GPU that does not give both values (one that is
    split into instances gives no utilisation) is not in the list: zero would be a measurement.
    With it the CPU seconds that asking took.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None, 0.0
    try:
        said, spent = _ask([program, QUERY, FORMAT])
    except OSError:
        return None, 0.0
    return None if said is None else parse(said), spent


def _ask(command: list[str]) -> tuple[str | None, float]:
    """What a program says, None where it fails or takes too long, and the CPU seconds it took.

    Programs of trials are children of this process too: only `wait4` tells what this one took.
    """
    out, err = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=out, stderr=err, text=True) as process:
        impatience = threading.Timer(TIMEOUT_S, process.kill)
        impatience.start()
        said = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        impatience.cancel()
    return said if process.returncode == 0 else None, used.ru_utime + used.ru_stime


def parse(text: str) -> list[dict[str, float]]:
    """Lines of `index, percent, MiB`, where a value may be `[N/A]`; other lines are messages."""
    rows: list[dict[str, float]] = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == COLUMNS and all(map(_is_number, parts)):
            index, percent, mebibytes = map(float, parts)
            rows.append(
                {
                    "index": int(index),
                    "utilisation": percent / 100,
                    "memory": int(mebibytes * MIB),
                }
            )
    return rows


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None


def driver_libraries(text: str) -> list[str]:
    """Paths of the driver's 64-bit libraries in the output of `ldconfig -p`, each name once.

    The first path of a name is the one that the loader would take.
    """
    pattern = re.compile(r"^\s*((\S+?)\.so\.\d+) \(([^)]*)\) => (\S+)$", re.MULTILINE)
    found: dict[str, str] = {}
    for name, stem, kind, path in pattern.findall(text):
        if stem in LIBRARIES and ("x86-64" in kind or "AArch64" in kind):
            found.setdefault(name, path)
    return sorted(found.values())


def installed_driver_libraries() -> list[str]:
    """What is to be bound into a root filesystem for a CUDA program; [] where that is unknown."""
    program = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "-p"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return driver_libraries(done.stdout)


def present(driver: Path = DRIVER, bus: Path = BUS) -> bool:
    """Whether there is an NVIDIA GPU: its driver is loaded, or a display device is on the bus."""
    if driver.is_dir():
        return True
    return any(_is_nvidia(path) for path in (bus.iterdir() if bus.is_dir() else ()))


def ids() -> list[str]:
    """All names by which a GPU of this host can be asked for: numbers, and UUIDs of GPUs and parts.

    [] where the driver does not tell; that is a moment's work, as only a host with a GPU is asked.
    """
    program = shutil.which("nvidia-smi") if present() else None
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "--list-gpus"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return listed(done.stdout)


def listed(text: str) -> list[str]:
    """Numbers and UUIDs in the output of `nvidia-smi --list-gpus`."""
    numbers = re.findall(r"^GPU (\d+):", text, re.MULTILINE)
    return [*numbers, *re.findall(r"\(UUID: ((?:GPU|MIG)-[^)\s]+)\)", text)]


def _is_nvidia(device: Path) -> bool:
    try:
        vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
    except OSError:  # unplugged meanwhile, or hidden from this account
        return False
    return vendor.strip() == "0x10de" and kind.startswith("0x03")
