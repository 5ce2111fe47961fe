#!/usr/bin/python
"""Write workload images as a registry takes them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image_layout
short_description: Write workload images as OCI image layouts, for a registry
description:
  - Each has the image's own tar as its only layer, as a link, so that its digest in the registry follows from that of the image.
options:
  images:
    description: The images, as M(strata_image_build) says.
    type: list
    elements: dict
    required: true
    suboptions:
      family: {description: The family., type: str, required: true}
      digest: {description: The digest of the content., type: str, required: true}
      path: {description: The tar., type: path, required: true}
      kind: {description: What it was made from., type: str}
      key: {description: Digest of its sources., type: str}
      bytes: {description: Size of the tar., type: int}
  folder:
    description: An empty folder for them.
    type: path
    required: true
attributes:
  check_mode:
    description: Writes them all the same, since the folder is a temporary one.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Write it as a registry takes it
  strata_image_layout:
    images: "{{ workload_image_built.images }}"
    folder: "{{ __made.path }}"
"""

RETURN = r"""
layouts:
  description: Of each image the C(name), its C(folder), and the C(digest) that it has in a registry.
  returned: success
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.image import oci, rootfs


def main() -> None:
    image = {
        "family": {"type": "str", "required": True},
        "digest": {"type": "str", "required": True},
        "path": {"type": "path", "required": True},
        "kind": {"type": "str"},
        "key": {"type": "str"},
        "bytes": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "list", "elements": "dict", "options": image, "required": True},
            "folder": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["folder"])
    with failing(module):
        layouts = [written(image, folder) for image in module.params["images"]]
    module.exit_json(changed=False, layouts=layouts)


def written(image: dict[str, Any], folder: Path) -> dict[str, str]:
    """Where it is, and its digest. Raises Refused for what is no root filesystem."""
    if image["kind"] == "venv":
        raise Refused(
            "a cluster pulls images of whole root filesystems",
            example="strata_image_kind: rootfs",
            given="strata_image_kind: venv",
            then="leave strata_image_kind out; the controller then needs root",
        )
    name = rootfs.name(image["family"], image["digest"])
    digest = oci.layout(Path(image["path"]), image["digest"], folder / name)
    return {"name": name, "folder": str(folder / name), "digest": digest}


if __name__ == "__main__":
    main()
