#!/usr/bin/python
"""Build the workload image on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image_build
short_description: Build the one workload image
description:
  - Builds the root filesystem that every platform runs, as one tar in a canonical spelling.
  - The SHA-256 of the tar is the digest of the image. Equal sources give equal digests on one day, from every folder and account.
  - Nothing is built when the image of these sources is there. Images of other sources that no run uses are removed.
  - Two builds of one image do not meet, one waits; what a killed one left is removed.
options:
  kind:
    description: A root filesystem made here, the file system of an OCI image, or, without root, a virtual environment.
    type: str
    choices: [rootfs, oci, venv]
    default: rootfs
  suite:
    description: Release of the distribution inside the image.
    type: str
    default: bookworm
  packages:
    description: Packages of the distribution inside the image.
    type: list
    elements: str
    default: [python3-minimal, libpython3-stdlib]
  lock:
    description: Requirements file with the hashes of the wheels.
    type: path
    required: true
  workloads:
    description: Folder of the workloads.
    type: path
    required: true
  reference:
    description: The OCI image to export, for O(kind=oci).
    type: str
    default: ""
  mirror:
    description: Mirror of the distribution; empty for its usual one.
    type: str
    default: ""
  cache:
    description: Folder in which images and downloads are kept.
    type: path
    required: true
  holder:
    description: The controller's process, as given to M(strata_lease). The image is kept for it, and the module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Says whether the image would be built.
    support: full
  diff_mode:
    description: Shows the digest before and after.
    support: full
"""

EXAMPLES = r"""
- name: Build the workload image
  strata_image_build:
    lock: requirements/workload.txt
    workloads: workloads
    cache: .cache
"""

RETURN = r"""
image:
  description: The image; empty in check mode when it is not there.
  returned: success
  type: dict
  contains:
    kind: {description: rootfs, oci or venv, type: str}
    key: {description: digest of the sources, type: str}
    digest: {description: digest of the content, type: str}
    path: {description: the tar, or the folder of the virtual environment, type: str}
    bytes: {description: size of the tar, type: int}
"""

from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused
from ansible.module_utils.strata.host import making, uses
from ansible.module_utils.strata.image.build import Builder, Source
from ansible.module_utils.strata.runtimes.docker.images import export
from ansible.module_utils.strata.trial import termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["rootfs", "oci", "venv"], "default": "rootfs"},
            "suite": {"type": "str", "default": "bookworm"},
            "packages": {
                "type": "list",
                "elements": "str",
                "default": ["python3-minimal", "libpython3-stdlib"],
            },
            "lock": {"type": "path", "required": True},
            "workloads": {"type": "path", "required": True},
            "reference": {"type": "str", "default": ""},
            "mirror": {"type": "str", "default": ""},
            "cache": {"type": "path", "required": True},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    try:
        change(module)
    except Refused as refused:
        module.fail_json(msg=str(refused))


def change(module: AnsibleModule) -> None:
    """Have the image of the sources, and no other; leaves through exit_json. Raises Refused."""
    given = module.params
    source = Source(
        given["kind"],
        given["suite"],
        given["packages"],
        Path(given["lock"]),
        Path(given["workloads"]),
        given["reference"],
    )
    builder = Builder(source, Path(given["cache"]), given["mirror"], export)
    before = builder.built()
    after, superfluous = before, builder.superfluous()
    if not module.check_mode:
        if given["holder"]:
            builder.use(given["holder"])
        after = before or builder.build()
        for path in superfluous:
            making.clear(path)
        uses.forget_dead()
    module.exit_json(
        changed=before is None or bool(superfluous),
        image=asdict(after) if after else {},
        diff={
            "before": _lines(before.digest if before else "no image", superfluous),
            "after": _lines(after.digest if after else f"an image of {source.key}", []),
        },
    )


def _lines(found: str, superfluous: list[Path]) -> str:
    return "".join(f"{line}\n" for line in [found, *map(str, superfluous)])


if __name__ == "__main__":
    main()
