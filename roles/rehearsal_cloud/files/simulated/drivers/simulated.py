"""Nova's driver for libvirt on a machine without a device that could be passed through.

It tells Nova of two PCI devices, which Nova counts, claims and gives back as those of a lab. A
guest gets in place of each a device that QEMU emulates, with the same vendor and product.

QEMU keeps what it has translated of a guest's code, 1 GiB of it unless it is told otherwise: beside
four guests of a few GiB that was the machine's last memory. And Nova knows no name for all that
QEMU can emulate of a CPU: its own default lacks instructions that today's programs are built for.
All but two: told that copying byte by byte is fast (erms, fsrm), kernels and libraries do that, and
it takes QEMU three times as long as copying by words.
"""

from nova.virt.libvirt import config
from nova.virt.libvirt.driver import LibvirtDriver
from oslo_serialization import jsonutils

# The watchdog i6300esb, at addresses that no machine has.
DEVICE = {"vendor_id": "8086", "product_id": "25ab", "dev_type": "type-PCI"}
ADDRESSES = ("0000:fe:00.0", "0000:fe:01.0")


class Translated(config.LibvirtConfigGuestFeature):
    """That much of translated code, in MiB; as node.xml has it of bare metal."""

    def __init__(self):
        super().__init__("tcg")

    def format_dom(self):
        element = super().format_dom()
        element.append(self._text_node("tb-cache", 512, unit="MiB"))
        return element


class Driver(LibvirtDriver):
    def _get_guest_config(self, *given, **named):
        guest = super()._get_guest_config(*given, **named)
        guest.features.append(Translated())
        guest.cpu = guest.cpu or config.LibvirtConfigGuestCPU()
        guest.cpu.mode = "maximum"  # as node.xml has it of bare metal
        for name in ("erms", "fsrm"):
            feature = config.LibvirtConfigGuestCPUFeature(name)
            feature.policy = "disable"
            guest.cpu.add_feature(feature)
        return guest

    def _get_pci_passthrough_devices(self):
        common = {**DEVICE, "status": "available", "parent_addr": None, "numa_node": None}
        label = "label_{vendor_id}_{product_id}".format(**DEVICE)
        return jsonutils.dumps([{**common, "address": at, "label": label} for at in ADDRESSES])

    def _get_guest_pci_device(self, pci_device):  # noqa: ARG002 - as Nova calls it
        device = config.LibvirtConfigGuestWatchdog()
        device.model, device.action = "i6300esb", "none"
        return device
