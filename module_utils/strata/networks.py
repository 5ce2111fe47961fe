"""The networks that a platform can have."""

from __future__ import annotations

# The networks each runtime can have; the first is what it has unless stated.
NETWORKS: dict[str, tuple[str, ...]] = {
    "native": ("host",),
    "docker": ("bridge", "host", "none", "docker_overlay"),
}
# Networks that containers of several hosts share; a container is found there by its alias.
SHARED = {"docker_overlay": "strata-overlay"}
