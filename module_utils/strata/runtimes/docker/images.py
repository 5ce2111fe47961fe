"""The workload image in the Docker engine of a host."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from ...errors import Refused
from ...image import rootfs
from . import engine

REPOSITORY = "strata/workload"
ENGINE_S = 60.0  # an engine that imports for others is slow, not gone


class DockerImage:
    """The same image in the Docker engine of this host.

    A deploy that changes nothing only asks. It asks the engine itself: to import the SDK alone
    takes longer than the answers. All methods raise Refused where no engine answers.
    """

    def __init__(self, family: str, content: str) -> None:
        self.family, self.content = family, content
        self.reference = reference(family, content)

    def holds(self) -> bool:
        """True when the engine's image is one layer whose diffID is the digest."""
        if self.reference not in self._tags():
            return False
        found = _ask_engine(f"/images/{self.reference}/json")
        return bool(found["RootFS"]["Layers"] == [f"sha256:{self.content}"])

    def load(self, tar: Path) -> None:
        """Import `tar`. Raises Refused when the engine then does not hold the digest."""
        with self._sdk() as client:
            name = rootfs.name(self.family, self.content)
            client.api.import_image(src=str(tar), repository=REPOSITORY, tag=name)
        if not self.holds():
            raise Refused(f"Docker does not hold image {self.content[:12]} after the import")

    def uses(self) -> list[str]:
        """What a run that uses this image needs to be kept."""
        return [self.reference]

    def others(self) -> list[str]:
        """Tags of the family's other images; without a family, of all."""
        named = ((tag, tag.rpartition(":")[2]) for tag in self._tags())
        return [tag for tag, name in named if rootfs.is_other(name, self)]

    def remove(self, tag: str) -> None:
        with self._sdk() as client:
            client.images.remove(tag, force=True)

    def _tags(self) -> list[str]:
        asked = quote(json.dumps({"reference": [REPOSITORY]}))
        found = _ask_engine(f"/images/json?filters={asked}")
        return [tag for image in found for tag in image["RepoTags"] or []]

    def _sdk(self) -> contextlib.closing[Any]:
        import docker  # noqa: PLC0415 - see above, and hosts without the runtime do not have it

        return contextlib.closing(docker.from_env())


def _ask_engine(path: str) -> Any:
    try:
        return json.loads(engine.ask(path, ENGINE_S))
    except OSError as error:
        raise Refused(
            "the Docker engine of this host answers",
            given=f"{path}: {error}",
            then="look at its log, and start it again",
        ) from error


def reference(family: str, content: str) -> str:
    """What Docker calls the image of a family with this digest."""
    return f"{REPOSITORY}:{rootfs.name(family, content)}"


def export(name: str, archive: Path) -> None:
    """Write the file system of an OCI image as a tar; an image that is not here is fetched."""
    import docker  # noqa: PLC0415 - see above

    with contextlib.closing(docker.from_env()) as client:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            client.images.pull(name)
        container = client.containers.create(name, "true")
        try:
            with archive.open("wb") as file:
                for chunk in container.export():
                    file.write(cast(bytes, chunk))  # its stub says str
        finally:
            container.remove()
