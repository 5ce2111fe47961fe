#!/usr/bin/python
"""Hold a dataset and prove it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_dataset
short_description: Describe a dataset by a manifest of checksums, and verify it
description:
  - Without a manifest, reads every file of the folder and keeps its checksums.
  - With one, proves that the folder holds just that. Contents are read again only when a size or a time changed.
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
    description: C(workload), the one that makes the dataset, and its options; the folder is generated when it is not there.
    type: dict
  image:
    description: The workload image on this host, as M(strata_trial) takes it; needed to generate.
    type: dict
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
  description: Name, digest, origin, path, number of files and bytes.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import dataset
from ansible.module_utils.strata.errors import Refused


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "manifest": {"type": "path", "required": True},
            "origin": {"type": "str", "choices": ["given", "generated"], "default": "given"},
            "generate": {"type": "dict"},
            "image": {"type": "dict"},
        },
        required_by={"generate": "image"},
        supports_check_mode=True,
    )
    given = module.params
    folder, kept = Path(given["path"]), Path(given["manifest"])
    missing = given["generate"] is not None and not folder.exists()
    if missing and module.check_mode:
        module.exit_json(changed=True, dataset={})
    try:
        if missing:
            dataset.generate(given["image"], given["generate"], folder)
        before = dataset.read(kept)
        found = before or dataset.take(given["name"], folder, given["origin"])
        dataset.verify(found, folder, kept.with_suffix(".verified"), not module.check_mode)
    except Refused as refused:
        module.fail_json(msg=str(refused))
    if before is None and not module.check_mode:
        dataset.keep(found, kept)
    module.exit_json(
        changed=before is None,
        dataset={
            "name": found.name,
            "digest": found.digest,
            "origin": found.origin,
            "path": str(folder),
            "files": len(found.files),
            "bytes": found.bytes,
        },
        diff={
            "before": f"{before.digest if before else 'no manifest'}\n",
            "after": f"{found.digest}\n",
        },
    )


if __name__ == "__main__":
    main()
