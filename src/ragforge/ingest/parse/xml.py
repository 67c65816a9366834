"""XML -> Markdown: sections with a title become headings, everything else lines of `name: value`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

from ragforge.domain.documents import Parsed, Reason, TextKind
from ragforge.ingest.parse.html import tree
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.text import CannotParse, MarkedText

MAX_HEADING = 6
