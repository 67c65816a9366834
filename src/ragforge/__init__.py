"""ragforge: a folder of documents becomes a project you can ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragforge.app import Ragforge as Ragforge

__version__ = "0.1.0"
__all__ = ["Ragforge", "__version__"]


def __getattr__(name: str) -> object:
    """`Ragforge` is imported when it is first asked for: `ragforge --help` need not load the catalog."""
    if name == "Ragforge":
        from ragforge.app import Ragforge

        return Ragforge
    raise AttributeError(f"module 'ragforge' has no attribute {name!r}")
