#!/usr/bin/python
"""Build images of workloads on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image_build
short_description: Build the image of each family of workloads
description:
  - Builds the root filesystem that every platform runs, for each family as one tar in a canonical spelling.
  - The SHA-256 of the tar is the digest of the image. Equal sources give equal digests on one day, from every folder and account.
  - Nothing is built when the image of these sources is there. Images of other sources of the same family that no run uses are removed.
  - Two builds of one image do not meet, one waits; what a killed one left is removed.
options:
  families:
    description: The families, and what is in the image of each.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the family.
        type: str
        required: true
      packages:
        description: Packages of the distribution, beside Python.
        type: list
        elements: str
        default: []
      lock:
        description: Requirements file with the hashes of the wheels. Left out for none.
        type: path
      without:
        description: Paths below the packages of Python that are left out.
        type: list
        elements: str
        default: []
  kind:
    description: A root filesystem made here, the file system of an OCI image, or, without root, a virtual environment.
    type: str
    choices: [rootfs, oci, venv]
    default: rootfs
  suite:
    description: Release of the distribution inside the image.
    type: str
    default: bookworm
  workloads:
    description: Folder of the workloads.
    type: path
    required: true
  reference:
    description: The OCI image to export, for O(kind=oci), which takes the place of one family.
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
    description: The controller's process, as given to M(strata_lease). The images are kept for it, and the module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Says whether an image would be built.
    support: full
  diff_mode:
    description: Shows the digests before and after.
    support: full
"""

EXAMPLES = r"""
- name: Build an image
  strata_image_build:
    families:
      - name: tools
    workloads: workloads
    cache: .cache
"""

RETURN = r"""
images:
  description: The images; in check mode those that are there.
  returned: success
  type: list
  elements: dict
  contains:
    family: {description: the family, type: str}
    kind: {description: rootfs, oci or venv, type: str}
    key: {description: digest of the sources, type: str}
    digest: {description: digest of the content, type: str}
    path: {description: the tar, or the folder of the virtual environment, type: str}
    bytes: {description: size of the tar, type: int}
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import making, uses
from ansible.module_utils.strata.image.build import Builder, Built, Source
from ansible.module_utils.strata.runtimes.docker.images import export
from ansible.module_utils.strata.trial import termination


def main() -> None:
    family = {
        "name": {"type": "str", "required": True},
        "packages": {"type": "list", "elements": "str", "default": []},
        "lock": {"type": "path"},
        "without": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "families": {"type": "list", "elements": "dict", "options": family, "required": True},
            "kind": {"type": "str", "choices": ["rootfs", "oci", "venv"], "default": "rootfs"},
            "suite": {"type": "str", "default": "bookworm"},
            "workloads": {"type": "path", "required": True},
            "reference": {"type": "str", "default": ""},
            "mirror": {"type": "str", "default": ""},
            "cache": {"type": "path", "required": True},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    with failing(module):
        change(module)


def change(module: AnsibleModule) -> None:
    """Have the image of each family; leaves through exit_json. Raises Refused."""
    given = module.params
    builders = [builder(given, family) for family in given["families"]]
    before = [one.built() for one in builders]
    superfluous = [path for one in builders for path in one.superfluous()]
    after = before
    if not module.check_mode:
        if given["holder"]:
            for one in builders:
                one.use(given["holder"])
        after = [there or one.build() for one, there in zip(builders, before, strict=True)]
        for path in dict.fromkeys(superfluous):
            making.clear(path)
        uses.forget_dead()
    module.exit_json(
        changed=None in before or bool(superfluous),
        images=[asdict(image) for image in after if image],
        diff={
            "before": _lines([_said(*pair) for pair in zip(builders, before, strict=True)])
            + _lines(superfluous),
            "after": _lines([_said(*pair) for pair in zip(builders, after, strict=True)]),
        },
    )


def builder(given: dict[str, Any], family: dict[str, Any]) -> Builder:
    """What builds the image of one family. Raises Refused."""
    lock = family["lock"]
    source = Source(
        family=family["name"],
        kind=given["kind"],
        suite=given["suite"],
        packages=family["packages"],
        lock=Path(lock) if lock else None,
        workloads=Path(given["workloads"]),
        without=family["without"],
        reference=given["reference"],
    )
    return Builder(source, Path(given["cache"]), given["mirror"], export)


def _said(one: Builder, image: Built | None) -> str:
    return f"{one.source.family}: {image.digest if image else f'not built, key {one.source.key}'}"


def _lines(found: Iterable[object]) -> str:
    return "".join(f"{line}\n" for line in found)


if __name__ == "__main__":
    main()
