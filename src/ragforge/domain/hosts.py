"""Which machine a name or an address means."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether it is this machine, and reached by nobody else."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
