"""Machines of a libvirt host. It runs on that host, under the Python of its distribution."""
