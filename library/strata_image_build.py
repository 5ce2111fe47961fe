#!/usr/bin/python
"""Build the workload image on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image_build
short_description: Build the one workload image
description:
  - Builds the root filesystem that every platform runs, as one tar in a canonical spelling.
  - The SHA-256 of the tar is the digest of the image. Equal sources on one day give equal digests.
  - Nothing is done when the image of these sources is there.
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
from ansible.module_utils.strata.build import Builder, Source
from ansible.module_utils.strata.errors import Refused


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
        },
        required_if=[("kind", "oci", ["reference"])],
        supports_check_mode=True,
    )
    given = module.params
    source = Source(
        given["kind"],
        given["suite"],
        given["packages"],
        Path(given["lock"]),
        Path(given["workloads"]),
        given["reference"],
    )
    builder = Builder(source, Path(given["cache"]), given["mirror"])
    before = builder.built()
    after = before
    if before is None and not module.check_mode:
        try:
            after = builder.build()
        except Refused as refused:
            module.fail_json(msg=str(refused))
    module.exit_json(
        changed=before is None,
        image=asdict(after) if after else {},
        diff={
            "before": f"{before.digest if before else 'no image'}\n",
            "after": f"{after.digest if after else 'an image of ' + source.key}\n",
        },
    )


if __name__ == "__main__":
    main()
