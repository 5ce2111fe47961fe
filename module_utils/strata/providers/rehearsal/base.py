"""The base image of a rehearsal lab's nodes: a Debian with systemd and sshd, made once.

It reads packages from where this machine reads them, and trusts whom this machine trusts. Its tag
names all that decides what is in it. It is kept in the cache, so that an engine that has lost it,
or another engine, gets it without its being made again.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...host import debian, making, owned
from ...identity import digest, short
from .lab import IMAGE

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
# Of this machine's settings of apt, those that say how to reach a mirror.
REACHING = re.compile(r"Acquire::((https?|ftp)::|Check-Valid-Until |Check-Date |Retries |ForceIPv)")
# In the folder of the cache's images: one for each tag.
KEPT, MADE, ARCHIVE = "rehearsal-", "made", "base.tar"
CHANGES = ['CMD ["/usr/sbin/rehearsal-init"]', "ENV container docker"]


@dataclass(frozen=True)
class Base:
    """All that decides the content: `files` is a folder with customize.sh and node/."""

    suite: str
    packages: list[str]
    cached: list[str]
    files: Path
    mirror: str = ""

    @cached_property
    def sources(self) -> list[str]:
        """Lines of sources.list for the suite; none for the distribution's usual mirrors."""
        if self.mirror:
            return [self.mirror]
        command = ["apt-get", "indextargets", "--format=$(REPO_URI) $(RELEASE) $(COMPONENT)"]
        return _of_suite(_output([*command, "Created-By: Packages"]), self.suite)

    @cached_property
    def apt_options(self) -> str:
        """This machine's settings for reaching mirrors, as apt writes them."""
        dumped = _output(["apt-config", "dump", "--format", '%F "%v";%n', "Acquire"])
        kept = [line for line in dumped.splitlines() if REACHING.match(line)]
        for scheme in ("http", "https"):
            proxy = os.environ.get(f"{scheme}_proxy", "")
            if proxy and not any(f"::{scheme}::Proxy " in line for line in kept):
                kept.append(f'Acquire::{scheme}::Proxy "{proxy}";')
        return "".join(f"{line}\n" for line in kept if ' "";' not in line)

    @cached_property
    def tag(self) -> str:
        """Names all that decides what is in it."""
        asked = [self.suite, sorted(self.packages), sorted(self.cached), self.sources]
        contents = [_contents(self.files, "*"), _contents(CERTIFICATES, "*.crt")]
        return short([*asked, self.apt_options, *contents, CHANGES])

    @property
    def reference(self) -> str:
        return f"{IMAGE}:{self.tag}"

    def build(self, client: Any, cache: Path) -> None:
        """Import it into Docker, from the cache. Raises Refused."""
        archive = str(self.keep(cache))
        client.api.import_image_from_file(archive, repository=IMAGE, tag=self.tag, changes=CHANGES)

    def keep(self, cache: Path) -> Path:
        """Its archive in the cache, made where it is not there.

        Raises Refused where it cannot be made, and for a cache that is not Strata's.
        """
        owned.Folder(cache, "cache").claim()
        kept = _folder(cache) / f"{KEPT}{self.tag}"
        with making.making(kept, "make the base image of the rehearsal lab") as aside:
            if not kept.exists():
                self._make(aside)
                aside.place(aside.folder / MADE)
        return kept / ARCHIVE

    def _make(self, aside: making.Aside) -> None:
        options, certificates = aside.folder / "apt.conf", aside.folder / "certificates"
        options.write_text(self.apt_options)
        certificates.mkdir()
        for path in sorted(CERTIFICATES.rglob("*.crt")):
            (certificates / path.name).write_bytes(path.read_bytes())
        made = aside.folder / MADE
        made.mkdir()
        debian.bootstrap(
            aside.run,
            self.suite,
            self.packages,
            made / ARCHIVE,
            f"--aptopt={options}",
            "--skip=cleanup/apt/lists,cleanup/apt/cache",
            f"--customize-hook={self.files / 'customize.sh'}",
            sources=self.sources,
            CERTIFICATES=str(certificates),
            CACHED=" ".join(self.cached),
        )


def forget(cache: Path, tag: str = "") -> list[Path]:
    """Remove all that the cache keeps but the base image of that tag, and what was left half made.

    Nothing goes that is being made. Raises Refused for a cache that is not Strata's.
    """
    folder = _folder(cache)
    if not owned.Folder(cache, "cache").is_ours() or not folder.is_dir():
        return []
    others = [path for path in folder.glob(f"{KEPT}*") if path.name != f"{KEPT}{tag}"]
    half = [path for path in making.abandoned(folder) if path.name.startswith(f".{KEPT}")]
    return [path for path in sorted([*others, *half]) if making.clear(path)]


def _folder(cache: Path) -> Path:
    return cache / "images"


def _contents(folder: Path, pattern: str) -> dict[str, str]:
    """Digests of the files by path; none where there is no such folder."""
    return {
        str(path.relative_to(folder)): digest(path.read_text())
        for path in sorted(folder.rglob(pattern))
        if path.is_file()
    }


def _of_suite(targets: str, suite: str) -> list[str]:
    """The lines for the suite, its updates and its security updates; `main` is all a node needs."""
    releases = (suite, f"{suite}-updates", f"{suite}-security")
    found = []
    for line in dict.fromkeys(targets.splitlines()):
        uri, release, component = line.split()
        if release in releases and component == "main":
            found.append(f"deb [signed-by={KEYRING}] {uri} {release} main")
    has_suite = any(f" {suite} main" in line for line in found)
    return found if has_suite else []


def _output(command: list[str]) -> str:
    """What it prints; nothing on a machine that has no apt."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
