#!/usr/bin/python
"""Hold the workload image on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image
short_description: Hold the workload image on a host, and prove it
description:
  - Unpacks the image for the runtime V(native) and imports it into Docker for V(docker).
  - Proves that each of them holds the digest. Other workload images that no run uses, and archives in which
    images were carried to O(state_dir)/images, are removed.
  - No other account can enter an unpacked image.
  - A virtual environment is where it was made, and is only described.
  - Claims O(state_dir), and refuses one that is neither Strata's nor free.
  - When the host needs the archive and does not have it, V(archive_needed) says so and nothing is done.
options:
  kind:
    description: What the image was made from.
    type: str
    choices: [rootfs, oci, venv]
    default: rootfs
  digest:
    description: SHA-256 of the image's canonical tar. Not needed for O(state=absent).
    type: str
    default: ""
  archive:
    description: The tar on this host, needed only when the image is not held yet. For V(venv), the environment.
    type: path
    default: ""
  runtimes:
    description: The runtimes of this host that need it.
    type: list
    elements: str
    default: [native]
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
  holder:
    description: The controller's process, as given to M(strata_lease). The image is kept for it, and the module ends with it.
    type: dict
    default: {}
  state:
    description: V(absent) removes all workload images of the given runtimes that no run uses.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Proves what is there and says what would change.
    support: full
  diff_mode:
    description: Shows which runtimes hold the digest before and after.
    support: full
"""

EXAMPLES = r"""
- name: Hold the image for both runtimes
  strata_image:
    digest: "{{ image.digest }}"
    archive: "{{ image.path }}"
    runtimes: [native, docker]
    state_dir: /var/lib/strata
"""

RETURN = r"""
holds:
  description: For each runtime, the digest that it is proven to hold, or an empty string.
  returned: success
  type: dict
image:
  description: The image on this host as M(strata_trial) takes it, C(kind), C(digest), C(rootfs).
  returned: success
  type: dict
archive_needed:
  description: Whether the archive must be carried to this host first.
  returned: success
  type: bool
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import runtimes
from ansible.module_utils.strata.errors import Refused
from ansible.module_utils.strata.host import uses
from ansible.module_utils.strata.host.owned import Folder
from ansible.module_utils.strata.image.rootfs import carried, held
from ansible.module_utils.strata.trial import termination


def stores(given: dict[str, Any]) -> dict[str, runtimes.Store]:
    """What keeps the image for each runtime. Raises Refused at a runtime that is none."""
    if given["kind"] == "venv":
        return {}
    where = Path(given["state_dir"]), given["digest"]
    return {name: runtimes.get(name).store(*where) for name in given["runtimes"]}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["rootfs", "oci", "venv"], "default": "rootfs"},
            "digest": {"type": "str", "default": ""},
            "archive": {"type": "path", "default": ""},
            "runtimes": {"type": "list", "elements": "str", "default": ["native"]},
            "state_dir": {"type": "path", "required": True},
            "holder": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["digest"])],
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    try:
        change(module, stores(module.params))
    except (Refused, ImportError) as error:
        module.fail_json(msg=str(error))


def change(module: AnsibleModule, kept: dict[str, runtimes.Store]) -> None:
    """Bring every store to the asked state; leaves through exit_json."""
    given, state_dir = module.params, Path(module.params["state_dir"])
    wanted = given["state"] == "present"
    folder = Folder(state_dir, "state")
    claimed = not folder.is_ours() and wanted
    if claimed and not module.check_mode:
        folder.claim()
    if wanted and given["holder"] and not module.check_mode:
        uses.note([thing for store in kept.values() for thing in store.uses()], given["holder"])
    before = {name: wanted and store.holds() for name, store in kept.items()}
    missing = [name for name, proven in before.items() if wanted and not proven]
    used = uses.living()
    superfluous = {
        name: [other for other in store.others() if other not in used]
        for name, store in kept.items()
    }
    archive = Path(given["archive"])
    needed = bool(missing) and not archive.is_file()
    archives = [] if needed else carried(state_dir)
    if not module.check_mode and not needed:
        for name in missing:
            if not kept[name].holds():  # another runtime may keep it at the same place
                kept[name].load(archive)
        uses.forget_dead()
        for name, others in superfluous.items():
            for other in others:
                kept[name].remove(other)
        for one in archives:
            one.unlink()
    loads = [] if needed else missing
    module.exit_json(
        changed=claimed or bool(loads or archives) or any(superfluous.values()),
        archive_needed=needed,
        image=held(given["kind"], given["digest"], state_dir, given["archive"]),
        holds={
            name: given["digest"] if proven or (name in loads and not module.check_mode) else ""
            for name, proven in before.items()
        },
        diff={
            "before": {
                "holds": before,
                "others": superfluous,
                "archives": [one.name for one in archives],
            },
            "after": {"holds": dict.fromkeys(kept, wanted), "others": {}, "archives": []},
        },
    )


if __name__ == "__main__":
    main()
