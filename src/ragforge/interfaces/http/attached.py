"""What was made here, as a file to be saved: no browser shows or runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.responses import Response

MARKDOWN = "text/markdown"
MEDIA: Mapping[str, str] = {
    "md": MARKDOWN,
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
"""By the ending of the file's name."""


def attached(data: bytes | str, name: str, ending: str) -> Response:
    """The file under this name, of which letters, digits and dashes are kept."""
    headers = {
        "Content-Disposition": f'attachment; filename="{re.sub(r"[^A-Za-z0-9-]+", "-", name)}.{ending}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return Response(data, 200, headers, MEDIA[ending])
