"""The emulated BMC, with a password as real ones have it.

What it inserts as a stick of USB is a second drive, as the kernels of clouds know no USB. The
emulator itself would make it a floppy disk, and with one medium eject all of its kind.
"""

import os
from pathlib import Path

import bcrypt
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems.libvirtdriver import LibvirtDriver

DRIVES = {"Cd": ("hdc", "ide"), "Floppy": ("hdd", "ide")}
FOLDER = Path(os.environ["STRATA_CLOUD"])


def eject(_, __, tree, device):
    devices = tree.find("devices")
    for disk in devices.findall("disk"):
        if disk.find("target").get("dev") == DRIVES[device][0]:
            devices.remove(disk)


LibvirtDriver.DEVICE_TARGET_MAP = DRIVES
LibvirtDriver.BOOT_DEVICE_MAP = {**LibvirtDriver.BOOT_DEVICE_MAP, "Floppy": "cdrom"}
LibvirtDriver._remove_boot_images = eject

password = (FOLDER / "etc/bmc.password").read_bytes().strip()
os.umask(0o077)
(FOLDER / "state/bmc/accounts").write_bytes(b"admin:" + bcrypt.hashpw(password, bcrypt.gensalt(4)))
main.main()
