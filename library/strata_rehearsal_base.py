#!/usr/bin/python
"""Make the base image of the rehearsal lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_base
short_description: Make the base image of the rehearsal lab's nodes
description:
  - Makes a Debian with systemd and sshd, keeps it in the cache, and imports it into this machine's Docker.
  - Nothing is done when an image of the same packages, files, mirrors and certificates is there.
options:
  suite:
    description: Release of Debian. The nodes' systemd must know this machine's version of control groups.
    type: str
    default: bookworm
  packages:
    description: Packages that are installed in it.
    type: list
    elements: str
    default: []
  cached:
    description: Packages that wait in its cache, so that nodes install them without fetching.
    type: list
    elements: str
    default: []
  files:
    description: Folder with C(customize.sh) and C(node/). Not needed for O(state=absent).
    type: path
    default: ""
  mirror:
    description: Mirror of the distribution; empty for the one of this machine.
    type: str
    default: ""
  cache:
    description: Folder in which the image is kept, beside those of the workloads.
    type: path
    required: true
  state:
    description: V(absent) removes all base images that no node uses, and those in the cache.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says whether it would be made.
    support: full
  diff_mode:
    description: Shows the tag before and after.
    support: full
"""

EXAMPLES = r"""
- name: Make the base image
  strata_rehearsal_base:
    packages: [systemd-sysv, dbus, openssh-server, python3]
    files: roles/rehearsal/files
    cache: .cache
"""

RETURN = r"""
reference:
  description: The image; empty for O(state=absent).
  returned: success
  type: str
held:
  description: The base images that are there.
  returned: success
  type: list
  elements: str
progress:
  description: A line for people.
  returned: success
  type: list
  elements: str
"""

import time
from pathlib import Path
from typing import Any

import docker
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.rehearsal.base import Base, forget
from ansible.module_utils.strata.providers.rehearsal.lab import IMAGE


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "suite": {"type": "str", "default": "bookworm"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "cached": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "path", "default": ""},
            "mirror": {"type": "str", "default": ""},
            "cache": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    with failing(module, docker.errors.DockerException):
        change(module, docker.from_env(timeout=300))


def change(module: AnsibleModule, client: Any) -> None:
    """Make what is wanted, remove what is not; leaves through exit_json."""
    given = module.params
    tags = sorted(tag for image in client.images.list(name=IMAGE) for tag in image.tags)
    reference, lines = "", []
    if given["state"] == "present":
        made = {name: given[name] for name in ("suite", "packages", "cached", "mirror")}
        base = Base(**made, files=Path(given["files"]))
        reference = base.reference
        if reference not in tags and not module.check_mode:
            began = time.monotonic()
            base.build(client, Path(given["cache"]))
            lines = [f"base image {reference} made in {time.monotonic() - began:.0f} s"]
    superfluous = [tag for tag in tags if tag != reference and not _used(client, tag)]
    if not module.check_mode:
        for tag in superfluous:
            client.images.remove(tag)
        if superfluous or not reference:
            forget(Path(given["cache"]), reference.rpartition(":")[2])
    after = sorted({*tags, *([reference] if reference else [])} - set(superfluous))
    module.exit_json(
        changed=after != tags,
        reference=reference,
        held=tags if module.check_mode else after,
        progress=lines,
        diff={"before": "\n".join([*tags, ""]), "after": "\n".join([*after, ""])},
    )


def _used(client: Any, tag: str) -> bool:
    return bool(client.containers.list(all=True, filters={"ancestor": tag}))


if __name__ == "__main__":
    main()
