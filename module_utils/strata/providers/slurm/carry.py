"""Files of the controller on an allocation's node: packed here, unpacked by a step of the job."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

from ...errors import Refused
from .site import Site

# Tens of thousands of small files go in one stream, of which nothing is kept on the way. What a
# link leads to goes in its place, and everybody can read all of it.
PACK = ("tar", "--create", "--file=-", "--dereference", "--mode=u=rwX,go=rX")
NAMED = ("--null", "--verbatim-files-from")
UNPACK = ("tar", "--extract", "--file=-", "--no-same-owner")


def carry(
    site: Site, job: int, node: str, source: Path, names: Path, folder: Path, become: bool
) -> None:
    """Write the files of `source` whose names a file lists, each ended by a NUL, into a folder.

    Raises Refused with what either side said.
    """
    pack = [*PACK, f"--directory={source}", *NAMED, f"--files-from={names}"]
    unpack = [*(["sudo", "-n"] if become else []), *UNPACK, f"--directory={folder}"]
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(pack, stdout=subprocess.PIPE, stderr=said) as packing:
            done = site.step(job, node, shlex.join(unpack), stdin=packing.stdout)
        said.seek(0)
        told = (done.stderr if done.status != 0 else b"") + said.read()
    if done.status != 0 or packing.returncode != 0:
        raise Refused(
            "the files are carried to the node by a step of the job, with tar at both ends",
            given=f"{node}: {' '.join(told.decode(errors='replace').split())[:400]}",
            then="see that the file system of strata_state_dir there has room, and run it again",
        )
