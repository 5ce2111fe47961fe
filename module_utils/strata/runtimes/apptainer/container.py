"""`apptainer`: the program runs in the image's SIF, started by its account and no other.

What needs root is done before, as for a native program: the control group, and a view of the host
in which the account finds what it is given. There it has no rights that any other account lacks.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from ...host import lease
from ..base import SCRATCH, Spec, StartError, open_files, program
from ..native import Native
from . import images, installation

# Joins the control group, lays out what the account is given, says that it is ready, waits for the
# word, becomes Apptainer. Apptainer wants to know the account by a name, which it has nowhere else.
SETUP = """
set -e
stage=$1 image=$2 spool=$3 data=$4 scratch=$5 storage=$6 files=$7; shift 7
for file in $GROUPS_TO_JOIN; do echo $$ > "$file"; done
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$stage"
cd "$stage"
show() { mount --bind "$1" "$2"; mount -o "remount,bind,nosuid$3" "$2"; }
if [ -d "$image" ]; then mkdir image; else : > image; fi
mkdir in out data tmp run home
show "$image" image ,ro
show "$spool/in" in ,ro
show "$spool/out" out ''
[ -z "$data" ] || show "$data" data ,ro
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
chown "$IDS" home
if [ -n "$scratch" ]; then
  mkdir "$stage$scratch"
  if [ "$storage" = tmpfs ]; then
    mount -t tmpfs -o "mode=700,uid=${IDS%:*},nosuid,nodev" tmpfs "$stage$scratch"
  else
    show "$spool/scratch" "$stage$scratch" ''
  fi
fi
{ cat /etc/passwd; echo "strata-trial:x:$IDS::$stage/home:/bin/sh"; } > passwd
{ cat /etc/group; echo "strata-trial:x:${IDS#*:}:"; } > group
for file in passwd group; do mount --bind "$file" "/etc/$file"; done
cd /
: > "$spool/ready"
read -r _
ulimit -c 0
ulimit -n "$files"
export HOME="$stage/home" APPTAINER_CONFIGDIR="$stage/home" APPTAINER_TMPDIR="$stage/home"
exec setpriv --no-new-privs --reuid="${IDS%:*}" --regid="${IDS#*:}" --clear-groups "$@" < /dev/null
"""
# The host's network, processes and devices, as sites have it, and of its folders none but those of
# the trial.
OPTIONS = (
    *("--silent", "exec", "--userns", "--cleanenv", "--no-home", "--pwd", "/"),
    *("--no-mount", "home,tmp,cwd,hostfs,bind-paths"),
)
NVIDIA_LIBRARIES = "/.singularity.d/libs"  # where --nv puts them


class Apptainer(Native):
    """One program, run by Apptainer."""

    def __init__(self, spec: Spec, apptainer: Path) -> None:
        super().__init__(spec)
        self._apptainer = apptainer

    def _set_up(self) -> list[str]:
        spec, stage = self._spec, lease.folder()
        image = images.of(spec.image) if installation.mounts_images() else None
        source = image or Path(spec.image["rootfs"])
        if not source.exists():
            raise StartError(f"Apptainer: the image is not there: {source}")
        folders = [spec.spool, spec.data or "", SCRATCH if spec.scratch else "", spec.storage]
        arguments = [stage, source, *folders, open_files()]
        return [SETUP, "sh", *map(str, arguments), *self._command(stage)]

    def _command(self, stage: Path) -> list[str]:
        """Apptainer's own; the program finds in its environment what it finds everywhere."""
        spec = self._spec
        binds = {"in": "/in:ro", "out": "/out", "tmp": "/tmp", "run": "/run"}  # noqa: S108
        binds |= {"data": "/data:ro"} if spec.data else {}
        bound = [word for name, at in binds.items() for word in ("--bind", f"{stage}/{name}:{at}")]
        nvidia = ["--nv"] if spec.resources.gpus else []
        variables = [f"{name}={value}" for name, value in self._environment().items()]
        inside = ["/usr/bin/env", "-i", *variables, *program(spec)]
        return [str(self._apptainer), *OPTIONS, *nvidia, *bound, f"{stage}/image", *inside]

    def _environment(self) -> dict[str, str]:
        own = super()._environment()
        return {**own, "LD_LIBRARY_PATH": NVIDIA_LIBRARIES} if "LD_LIBRARY_PATH" in own else own

    def signal(self, number: int) -> None:
        """Apptainer passes signals on to the program; what ends at once ends both."""
        if number == signal.SIGKILL:
            super().signal(number)
        elif self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
