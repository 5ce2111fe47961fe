"""The workload image for a registry: the image's own tar as its only layer, not packed.

So the digest of the manifest, by which a cluster pulls it, follows from the image's digest, and
the engine proves the layer by the image's digest itself (its `diffID`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
TYPES = "application/vnd.oci.image"


def layout(tar: Path, content: str, folder: Path) -> str:
    """Make the folder an OCI image layout of the image; the digest of its manifest.

    The layer is a link to `tar`.
    """
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    (blobs / content).symlink_to(tar)
    config, manifest = documents(content, tar.stat().st_size)
    for text in (config, manifest):
        (blobs / sha256(text)).write_bytes(text)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_bytes(
        _json({"schemaVersion": 2, "manifests": [_part("manifest.v1+json", manifest)]})
    )
    return sha256(manifest)


def documents(content: str, size: int) -> tuple[bytes, bytes]:
    """Configuration and manifest of the image whose tar has this digest and size."""
    config = _json({
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{content}"]},
    })  # fmt: skip
    layer = {
        "mediaType": f"{TYPES}.layer.v1.tar",
        "digest": f"sha256:{content}",
        "size": size,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{TYPES}.manifest.v1+json",
        "config": _part("config.v1+json", config),
        "layers": [layer],
    }
    return config, _json(manifest)


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _part(kind: str, text: bytes) -> dict[str, object]:
    return {"mediaType": f"{TYPES}.{kind}", "digest": f"sha256:{sha256(text)}", "size": len(text)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
