"""The workload image in the engine of a node: containerd, by its own program `ctr`."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import IO, Any, cast

from ...errors import Refused
from ...host.facts import has
from ...image import rootfs
from ...image.oci import MACHINES

REPOSITORY = "strata.local/workload"
NAMESPACE = "k8s.io"  # the one that kubelet looks into
SAID_BYTES = 1500


class ContainerdImage:
    """The same image in the engine of this node. All methods raise Refused where none answers."""

    def __init__(self, family: str, content: str) -> None:
        self.family, self.content = family, content
        self.reference = reference(family, content)

    def holds(self) -> bool:
        """True when the engine's image is one layer whose diffID is the digest."""
        if self.reference not in _references():
            return False
        lines = _ctr("images", "list", f"name=={self.reference}").splitlines()
        target = next(word for word in lines[1].split() if word.startswith("sha256:"))
        config = json.loads(_ctr("content", "get", target))["config"]["digest"]
        layers = json.loads(_ctr("content", "get", config))["rootfs"]["diff_ids"]
        return bool(layers == [f"sha256:{self.content}"])

    def load(self, tar: Path) -> None:
        """Import `tar`. Raises Refused when the engine then does not hold the digest."""
        command = _command("images", "import", "-")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as importing:
            assert importing.stdin and importing.stderr  # noqa: S101 - they are pipes
            # Where it ended before it had read all, it says why, also of what is written at last.
            with contextlib.suppress(BrokenPipeError):
                write(self, tar, importing.stdin)
            with contextlib.suppress(BrokenPipeError):
                importing.stdin.close()
            said = importing.stderr.read()
        if importing.returncode != 0 or not self.holds():
            raise Refused(
                f"containerd does not hold image {self.content[:12]} after the import",
                given=said[-SAID_BYTES:].decode("utf-8", "replace"),
            )

    def uses(self) -> list[str]:
        """What a run that uses this image needs to be kept."""
        return [self.reference]

    def others(self) -> list[str]:
        """References of the family's other images; without a family, of all."""
        named = ((one, one.rpartition(":")[2]) for one in _references())
        return [
            one
            for one, name in named
            if one.startswith(f"{REPOSITORY}:") and rootfs.is_other(name, self)
        ]

    def remove(self, other: str) -> None:
        _ctr("images", "remove", "--sync", other)


def write(image: ContainerdImage, tar: Path, out: IO[bytes]) -> None:
    """An archive as `docker save` writes it, whose only layer is the image's tar."""
    config = {
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{image.content}"]},
    }
    data = json.dumps(config, sort_keys=True).encode()
    named, layer = f"{hashlib.sha256(data).hexdigest()}.json", f"{image.content}.tar"
    said = [{"Config": named, "RepoTags": [image.reference], "Layers": [layer]}]
    pipe = cast(Any, rootfs.Onward(out))  # writing needs `write` and `tell` alone
    with tarfile.TarFile(fileobj=pipe, mode="w", copybufsize=rootfs.COPIED_AT_ONCE) as archive:
        for name, text in ((named, data), ("manifest.json", json.dumps(said).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        archive.add(tar, layer, recursive=False)


def reference(family: str, content: str) -> str:
    """What the engine calls the image of a family with this digest."""
    return f"{REPOSITORY}:{rootfs.name(family, content)}"


def _references() -> list[str]:
    # Docker brings a `ctr`, too, whose engine may not run: only a node's is asked.
    return _ctr("images", "list", "--quiet").split() if has("kubelet") else []


def _command(*arguments: str) -> list[str]:
    return ["ctr", f"--namespace={NAMESPACE}", *arguments]


def _ctr(*arguments: str) -> str:
    done: Any = subprocess.run(_command(*arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(
            "the engine of this node answers",
            given=f"ctr {' '.join(arguments)}: {done.stderr.strip()[-SAID_BYTES:]}",
            then="look at the log of containerd, and start it again",
        )
    return str(done.stdout)
