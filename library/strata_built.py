#!/usr/bin/python
"""What a host was built of."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_built
short_description: Tell what a host was built of
description:
  - Reads the versions of all packages, the settings of the kernel that someone has set or that bear on speed, parameters of
    modules, and firmware. Together with M(strata_fingerprint) it is what the lock of a testbed holds of a host.
  - Changes nothing, and asks no server.
options:
  wanted:
    description: The version that each package is to have, by its name.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Tell what the host was built of
  strata_built:
    wanted: {docker.io: 20.10.24+dfsg1-1+deb12u1}
"""

RETURN = r"""
built:
  description: Flat keys such as C(package.docker.io) with plain values.
  returned: always
  type: dict
differing:
  description: Of O(wanted), as C(NAME=VERSION), what is not installed at that version.
  returned: always
  type: list
  elements: str
unavailable:
  description: What of that none of the host's sources of packages has, as it knows them now.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import built


def main() -> None:
    module = AnsibleModule(
        argument_spec={"wanted": {"type": "dict", "default": {}}}, supports_check_mode=True
    )
    with failing(module):
        found = built.capture()
        differing = built.differing(module.params["wanted"], found)
        missing = built.unavailable(differing)
    module.exit_json(changed=False, built=found, differing=differing, unavailable=missing)


if __name__ == "__main__":
    main()
