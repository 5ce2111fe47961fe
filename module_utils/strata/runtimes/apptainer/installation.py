"""Apptainer on a host: where it is, what it needs, and what the host lets any account do."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from ...fields import Field
from ...host.facts import PROGRAMS, has, read_text

# Where the role puts an Apptainer that was built, as the distribution has none.
BUILT = Path("/opt/strata-apptainer")
FUSE = Path("/dev/fuse")
# Ubuntu's kernels: user namespaces only for programs that have a profile of AppArmor.
CONFINED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
# The programs that mount a SIF, the one that Apptainer prefers first, and those that make it.
MOUNTERS = ("squashfuse_ll", "squashfuse")
MAKERS = ("mksquashfs", "unsquashfs")
NOBODY = 65534
ANSWER_S = 10.0
VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\S*")

FIELDS = {
    "apptainer.version": Field("Apptainer"),
    "apptainer.privileges": Field("what Apptainer's containers are made with"),
    "apptainer.image": Field("what Apptainer mounts its image with"),
}


def program() -> Path | None:
    """Apptainer itself: the host's own, or else the one that was built for it."""
    found = shutil.which("apptainer", path=f"{PROGRAMS}:{BUILT}/bin")
    return Path(found) if found else None


def mounter() -> Path | None:
    """The program that mounts a SIF: one that came with Apptainer, or else the host's."""
    own = program()
    beside = f"{own.resolve().parents[1]}/libexec/apptainer/bin:" if own else ""
    found = (shutil.which(name, path=f"{beside}{PROGRAMS}") for name in MOUNTERS)
    return next((Path(path) for path in found if path), None)


def fuse(device: Path = FUSE) -> bool:
    """Whether any account may mount through FUSE."""
    try:
        mode = device.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) and mode & 0o006 == 0o006  # noqa: PLR2004


def mounts_images() -> bool:
    """Whether the image is a SIF here, and no folder."""
    return fuse() and mounter() is not None and not _lacks(MAKERS)


def facts() -> dict[str, Any]:
    """What is there; `why_not` is '' when a trial can run or all that it needs can be had."""
    own, needed = program(), fuse()
    lacks = _lacks(MAKERS) if needed else []
    missing = [*lacks, *(MOUNTERS[1:] if needed and mounter() is None else ())]
    return {
        "installed": own is not None,
        "built": BUILT.is_dir(),
        "missing": missing,
        "why_not": why_not(
            installed=own is not None,
            namespaces=_may_make_namespaces() or (own is not None and _is_confined()),
            root=os.geteuid() == 0,
            apt=has("apt-get"),
        ),
    }


def why_not(*, installed: bool, namespaces: bool, root: bool, apt: bool) -> str:
    """'' when it is there or root can have it, and the kernel allows it; else one plain clause."""
    if not namespaces:
        return (
            "an account without rights may make no user namespace there: see the kernel's settings "
            "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
            "kernel.apparmor_restrict_unprivileged_userns"
        )
    if not root:
        return "the control group of a trial needs root"
    if installed or apt:
        return ""
    return "it is not installed, and this distribution has no apt for what it calls"


def fingerprint() -> dict[str, Any]:
    """Version, and how it gets at namespaces and image, where it is installed."""
    own, by = program(), mounter()
    if own is None:
        return {}
    image = f"{by.name} {_version(by)}".strip() if by and mounts_images() else "sandbox"
    return {
        "apptainer.version": _version(own),
        "apptainer.privileges": "user namespace",
        "apptainer.image": image,
    }


def _version(program: Path) -> str:
    """The first number with dots that it says of itself, on either of its outputs."""
    match = VERSION.search(_said([str(program), "--version"]))
    return match[0] if match else ""


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _may_make_namespaces() -> bool:
    """Tried, by an account without rights: three settings of kernels decide, and limits."""
    nobody = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    without_root = ["setpriv", *nobody] if os.geteuid() == 0 else []
    command = [*without_root, "unshare", "--user", "--map-root-user", "--mount", "true"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_confined() -> bool:
    """Only programs with a profile may; a package of Apptainer brings its own."""
    return read_text(CONFINED) == "1" and not BUILT.is_dir()


def _lacks(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if not has(name)]
