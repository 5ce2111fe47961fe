"""Nova's driver for libvirt on a machine without a device that could be passed through.

It tells Nova of two PCI devices, which Nova counts, claims and gives back as those of a lab. A
guest gets in place of each a device that QEMU emulates, with the same vendor and product.
"""

from nova.virt.libvirt import config
from nova.virt.libvirt.driver import LibvirtDriver
from oslo_serialization import jsonutils

# The watchdog i6300esb, at addresses that no machine has.
DEVICE = {"vendor_id": "8086", "product_id": "25ab", "dev_type": "type-PCI"}
ADDRESSES = ("0000:fe:00.0", "0000:fe:01.0")


class Driver(LibvirtDriver):
    def _get_pci_passthrough_devices(self):
        common = {**DEVICE, "status": "available", "parent_addr": None, "numa_node": None}
        label = "label_{vendor_id}_{product_id}".format(**DEVICE)
        return jsonutils.dumps([{**common, "address": at, "label": label} for at in ADDRESSES])

    def _get_guest_pci_device(self, pci_device):  # noqa: ARG002 - as Nova calls it
        device = config.LibvirtConfigGuestWatchdog()
        device.model, device.action = "i6300esb", "none"
        return device
