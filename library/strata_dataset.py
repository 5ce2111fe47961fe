#!/usr/bin/python
"""Hold a dataset and prove it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_dataset
short_description: Describe a dataset by a manifest of checksums, and verify it
description:
  - Without a manifest, reads every file of the folder and keeps its checksums.
  - With one, proves that the folder holds just that. Contents are read again only when a size or a time changed.
  - Removes what once was generated, or carried here, under this name and is used by no run.
options:
  name:
    description: Name of the dataset.
    type: str
    required: true
  path:
    description: Folder of class folders with JPEGs, or of TFRecord shards.
    type: path
    required: true
  manifest:
    description: Where the manifest is kept.
    type: path
    required: true
  origin:
    description: Where the dataset came from; stands in every record.
    type: str
    choices: [given, generated]
    default: given
  generate:
    description: C(workload), the one that makes the dataset, and all its C(options); the folder is generated when it is not there.
    type: dict
  image:
    description: The workload image on this host, as M(strata_trial) takes it; needed to generate.
    type: dict
  holder:
    description: The controller's process, as given to M(strata_lease). The dataset is kept for it, and the module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Verifies what is there; generates and writes nothing.
    support: full
  diff_mode:
    description: Shows the digest before and after.
    support: full
"""

EXAMPLES = r"""
- name: Verify the photographs
  strata_dataset:
    name: flowers
    path: /data/flowers
    manifest: /var/lib/strata/datasets/flowers.json
"""

RETURN = r"""
dataset:
  description: Name, digest, origin, what was asked to be generated, path, number of files and bytes.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import uses
from ansible.module_utils.strata.image import dataset
from ansible.module_utils.strata.trial import generate, termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "manifest": {"type": "path", "required": True},
            "origin": {"type": "str", "choices": ["given", "generated"], "default": "given"},
            "generate": {"type": "dict"},
            "image": {"type": "dict"},
            "holder": {"type": "dict", "default": {}},
        },
        required_by={"generate": "image"},
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    with failing(module):
        change(module)


def change(module: AnsibleModule) -> None:
    """Have the dataset, its manifest and its proof; leaves through exit_json. Raises Refused."""
    given, check = module.params, module.check_mode
    folder, kept, asked = Path(given["path"]), Path(given["manifest"]), given["generate"]
    missing = asked is not None and not folder.exists()
    if missing and check:
        module.exit_json(changed=True, dataset={})
    if given["holder"] and not check:
        uses.note([str(folder)], given["holder"])
    if missing:
        generate.generate(given["image"], asked, folder)
    before = dataset.read(kept)
    found = before or dataset.take(given["name"], folder, given["origin"], asked)
    dataset.check_asked(found, asked, kept)
    dataset.verify(found, folder, kept.with_suffix(".verified"), not check)
    superfluous = dataset.superfluous(found.name, folder)
    if not check:
        if before is None:
            dataset.keep(found, kept)
        names = kept.with_suffix(".files")
        if not names.exists():
            dataset.keep_names(found, names)
        for path in superfluous:
            dataset.remove(path)
    module.exit_json(
        changed=before is None or bool(superfluous),
        dataset={
            "name": found.name,
            "digest": found.digest,
            "origin": found.origin,
            "asked": found.asked,
            "path": str(folder),
            "files": len(found.files),
            "bytes": found.bytes,
        },
        diff={
            "before": _lines(before.digest if before else "no manifest", superfluous),
            "after": _lines(found.digest, []),
        },
    )


def _lines(found: str, superfluous: list[Path]) -> str:
    return "".join(f"{line}\n" for line in [found, *map(str, superfluous)])


if __name__ == "__main__":
    main()
