"""The workload image on a node of a cluster that exists, which has pulled it."""

from __future__ import annotations

from pathlib import Path

from ...errors import Refused
from ...image import rootfs


class PulledImage:
    """The image that a cluster which exists has pulled to this node, and a pod keeps there.

    It was proven where it was put for the cluster; its reference there has the digest of that.
    """

    carries = False  # no archive is taken to the node

    def __init__(self, family: str, content: str) -> None:
        self.family, self.content = family, content

    def holds(self) -> bool:
        from .cluster import Cluster  # noqa: PLC0415 - the client takes long to import

        cluster = Cluster()
        try:
            return bool(cluster.held(rootfs.name(self.family, self.content)))
        finally:
            cluster.close()

    def load(self, tar: Path) -> None:
        del tar
        raise Refused(
            "in a cluster that exists an image is pulled before trials run from it",
            given=f"no pod keeps {rootfs.name(self.family, self.content)} on this node",
            then="run deploy: --tags deploy",
        )

    def uses(self) -> list[str]:
        return []

    def others(self) -> list[str]:
        return []

    def remove(self, other: str) -> None:
        """There are none."""
