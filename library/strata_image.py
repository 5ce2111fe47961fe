#!/usr/bin/python
"""Hold the images of workloads on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_image
short_description: Hold images of workloads on a host, and prove them
description:
  - Unpacks each image for the runtime V(native) and imports it into Docker for V(docker).
  - Proves that each of them holds the digests. Other images of the same families that no run uses are removed,
    and archives in which images were carried to O(state_dir)/images. Images of other families stay.
  - No other account can enter an unpacked image.
  - A virtual environment is where it was made, and is only described.
  - Claims O(state_dir), and refuses one that is neither Strata's nor free.
  - When the host needs an archive and does not have it, V(archives_needed) says so and nothing is done.
options:
  images:
    description: The images, one of a family, as M(strata_image_build) returned them. Not needed for O(state=absent).
    type: list
    elements: dict
    default: []
    suboptions:
      family:
        description: The family of workloads that it is of.
        type: str
        required: true
      kind:
        description: What the image was made from.
        type: str
        choices: [rootfs, oci, venv]
        default: rootfs
      digest:
        description: SHA-256 of the image's canonical tar.
        type: str
        required: true
      path:
        description: The tar where it was built; for V(venv), the environment.
        type: path
        required: true
      key:
        description: Digest of its sources; not needed.
        type: str
      bytes:
        description: Size of the tar; not needed.
        type: int
  carried:
    description: Whether archives are carried to this host, to O(state_dir)/images. Otherwise it is where they were built.
    type: bool
    default: false
  runtimes:
    description: The runtimes of this host that need them.
    type: list
    elements: str
    default: [native]
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
  holder:
    description: The controller's process, as given to M(strata_lease). The images are kept for it, and the module ends with it.
    type: dict
    default: {}
  state:
    description: V(absent) removes all images of workloads of the given runtimes that no run uses.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Proves what is there and says what would change.
    support: full
  diff_mode:
    description: Shows which runtimes hold the digests before and after.
    support: full
"""

EXAMPLES = r"""
- name: Hold the images for both runtimes
  strata_image:
    images: "{{ workload_image_built.images }}"
    runtimes: [native, docker]
    state_dir: /var/lib/strata
"""

RETURN = r"""
holds:
  description: For each family and runtime, the digest that it is proven to hold, or an empty string.
  returned: success
  type: dict
images:
  description: For each family the image on this host as M(strata_trial) takes it, C(family), C(kind), C(digest), C(rootfs).
  returned: success
  type: dict
archives_needed:
  description: The archives that must be carried to this host first, each with C(path) and C(carried), from where and to where.
  returned: success
  type: list
  elements: dict
"""

import platform
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import runtimes
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.host import uses
from ansible.module_utils.strata.host.owned import Folder
from ansible.module_utils.strata.image import rootfs
from ansible.module_utils.strata.trial import termination


class Held(NamedTuple):
    """The image of a family in the store of a runtime; of all families, without an archive."""

    family: str
    runtime: str
    digest: str
    archive: Path
    store: runtimes.Store


def main() -> None:
    image = {
        "family": {"type": "str", "required": True},
        "kind": {"type": "str", "choices": ["rootfs", "oci", "venv"], "default": "rootfs"},
        "digest": {"type": "str", "required": True},
        "path": {"type": "path", "required": True},
        "key": {"type": "str"},
        "bytes": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "list", "elements": "dict", "options": image, "default": []},
            "carried": {"type": "bool", "default": False},
            "runtimes": {"type": "list", "elements": "str", "default": ["native"]},
            "state_dir": {"type": "path", "required": True},
            "holder": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    with failing(module, ImportError):
        if module.params["state"] == "present":
            hold(module)
        else:
            remove(module)


def hold(module: AnsibleModule) -> None:
    """Have every image in every store, and prove it; leaves through exit_json."""
    given, state_dir = module.params, Path(module.params["state_dir"])
    folder = Folder(state_dir, "state")
    claimed = not folder.is_ours()
    if claimed and not module.check_mode:
        folder.claim()
    if not module.check_mode:
        check_environments(given)
    wanted = stores(given)
    if given["holder"] and not module.check_mode:
        uses.note([thing for one in wanted for thing in one.store.uses()], given["holder"])
    missing = [one for one in wanted if not one.store.holds()]
    carried = [one for one in missing if getattr(one.store, "carries", True)]
    needed = {one.archive: one for one in carried if not one.archive.is_file()}
    loads = [] if needed else missing
    superfluous = others(wanted)
    archives = [] if needed else rootfs.carried(state_dir)
    if not module.check_mode and not needed:
        for one in loads:
            if not one.store.holds():  # another runtime may keep it at the same place
                one.store.load(one.archive)
        clear(superfluous)
        for archive in archives:
            archive.unlink()
    proven = [one for one in wanted if one not in missing]
    module.exit_json(
        changed=claimed or bool(loads or archives or superfluous),
        archives_needed=[
            {"path": path_of(given, one.family), "carried": str(one.archive)}
            for one in needed.values()
        ],
        images={image["family"]: held(image, state_dir) for image in given["images"]},
        holds=_holds(wanted, proven if module.check_mode else [*proven, *loads]),
        diff={
            "before": {
                "holds": _holds(wanted, proven),
                "others": sorted(superfluous),
                "archives": [archive.name for archive in archives],
            },
            "after": {"holds": _holds(wanted, wanted), "others": [], "archives": []},
        },
    )


def remove(module: AnsibleModule) -> None:
    """Remove the images of all families that no run uses; leaves through exit_json."""
    given, state_dir = module.params, Path(module.params["state_dir"])
    Folder(state_dir, "state").is_ours()
    every = [
        Held("", name, "", Path(), runtimes.get(name).store(state_dir, "", ""))
        for name in given["runtimes"]
    ]
    superfluous, archives = others(every), rootfs.carried(state_dir)
    if not module.check_mode:
        clear(superfluous)
        for archive in archives:
            archive.unlink()
    there = {"others": sorted(superfluous), "archives": [archive.name for archive in archives]}
    module.exit_json(
        changed=bool(superfluous or archives),
        archives_needed=[],
        images={},
        holds={},
        diff={"before": there, "after": {"others": [], "archives": []}},
    )


def check_environments(given: dict[str, Any]) -> None:
    """Raises Refused where a virtual environment, which is nowhere but where it was made, is not."""
    for image in given["images"]:
        python = Path(image["path"]) / "bin/python"
        if image["kind"] == "venv" and not python.exists():
            raise Refused(
                "a host sees a virtual environment, and its Python, where the controller made it",
                example="strata_cache: /home/me/strata-cache, which all hosts share",
                given=f"{platform.node()} has no {python}",
                then="put strata_cache on a disk that they share, and use a Python that all have",
            )


def stores(given: dict[str, Any]) -> list[Held]:
    """What keeps each image for each runtime. Raises Refused at a runtime that is none."""
    state_dir = Path(given["state_dir"])
    return [
        Held(
            image["family"],
            name,
            image["digest"],
            archive(given, image),
            runtimes.get(name).store(state_dir, image["family"], image["digest"]),
        )
        for image in given["images"]
        for name in given["runtimes"]
        if image["kind"] != "venv"
    ]


def archive(given: dict[str, Any], image: dict[str, Any]) -> Path:
    """Where the archive of an image is, or is carried to, on this host."""
    if not given["carried"]:
        return Path(image["path"])
    name = rootfs.name(image["family"], image["digest"])
    return Path(given["state_dir"]) / "images" / f"{name}.tar"


def path_of(given: dict[str, Any], family: str) -> str:
    """Where the archive of a family's image is on the controller."""
    return next(str(image["path"]) for image in given["images"] if image["family"] == family)


def held(image: dict[str, Any], state_dir: Path) -> dict[str, str]:
    """The image on this host as runtimes take it."""
    parts = (str(image[key]) for key in ("family", "kind", "digest"))
    found: dict[str, str] = rootfs.held(*parts, state_dir, str(image["path"]))
    return found


def others(kept: list[Held]) -> dict[str, runtimes.Store]:
    """What no run uses of the stores' other images, and the store that can remove it."""
    used = uses.living()
    found = {other: one.store for one in kept for other in one.store.others()}
    return {other: store for other, store in found.items() if other not in used}


def clear(superfluous: dict[str, runtimes.Store]) -> None:
    """Remove images that no run uses."""
    uses.forget_dead()
    for other, store in superfluous.items():
        store.remove(other)


def _holds(wanted: list[Held], proven: list[Held]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in wanted:
        found.setdefault(one.family, {})[one.runtime] = one.digest if one in proven else ""
    return found


if __name__ == "__main__":
    main()
