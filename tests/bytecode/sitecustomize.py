"""Keeps the byte code of what Python imports from archives, in the folder STRATA_BYTECODE.

The nodes of a lab have this file, too, where nothing sets that.

Ansible sends a module and all that it imports as an archive of sources, which Python compiles anew
for every task: half of the CPU time that a task takes. Tests run thousands of them. Python imports
a file of this name when it starts, where PYTHONPATH leads to it.
"""

import contextlib
import hashlib
import marshal
import os
import sys
import zipimport
from pathlib import Path
from types import CodeType

KEPT = os.environ.get("STRATA_BYTECODE", "/var/tmp/strata-bytecode")
FOLDER = Path(KEPT) / str(sys.implementation.cache_tag)
compiled = zipimport._compile_source  # type: ignore[attr-defined]


def kept(path: str, source: bytes) -> CodeType:
    """The code of `source`, as it was compiled the first time."""
    file = FOLDER / hashlib.sha256(source).hexdigest()
    with contextlib.suppress(OSError):
        return marshal.loads(file.read_bytes())  # noqa: S302 - it was written below
    code: CodeType = compiled(path, source)
    with contextlib.suppress(OSError):  # another account keeps nothing
        FOLDER.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_bytes(marshal.dumps(code))
        aside.rename(file)
    return code


zipimport._compile_source = kept  # type: ignore[attr-defined]
