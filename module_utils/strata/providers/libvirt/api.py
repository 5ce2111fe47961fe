"""The way to a libvirt host, on that host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...errors import Fails, Refused, failing

PACKAGES = "libvirt-daemon-system qemu-system-x86 python3-libvirt python3-lxml"


@contextlib.contextmanager
def connected(module: Fails, uri: str) -> Iterator[Any]:
    """A `libvirt.virConnect`; what libvirt says no to ends the module with its words.

    Bindings are the distribution's, and only this host need have them.
    """
    with failing(module):
        try:
            import libvirt  # noqa: PLC0415 - see above
        except ImportError:
            raise Refused(
                "the libvirt host has libvirt, QEMU, and the bindings for Python",
                given="there is no module libvirt",
                then=f"install there: apt install {PACKAGES}",
            ) from None
        # It writes errors to the terminal, too.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        try:
            connection = libvirt.open(uri)
        except libvirt.libvirtError as error:
            raise Refused(
                "libvirt answers on the libvirt host, and accepts who asks",
                example="libvirt_uri: qemu:///system",
                given=f"{uri}: {error.get_error_message()}",
                then="look whether libvirtd runs there, and whether the account may use it",
            ) from None
        try:
            yield connection
        except libvirt.libvirtError as error:
            raise Refused(
                "libvirt does what it is asked",
                given=error.get_error_message(),
                then="look at its log on the libvirt host; the same command goes on",
            ) from None
        finally:
            connection.close()


@contextlib.contextmanager
def gone() -> Iterator[None]:
    """A domain that somebody removes while it is looked at is not there."""
    import libvirt  # noqa: PLC0415 - see above

    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
