"""Small PDF files for tests, written by hand: pages of placed text, no library needed."""

from __future__ import annotations

from collections.abc import Sequence

Placed = tuple[float, float, str]
"""x, y and the text drawn there."""

_IMAGE = (
    b"<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>"
    b"stream\n\x80\nendstream"
)


def pdf(
    pages: Sequence[Sequence[Placed]],
    *,
    title: str = "",
    outline: Sequence[tuple[str, int]] = (),
    image: bool = False,
) -> bytes:
    """A PDF with one page for each list of placed texts; `outline` names pages (counted from 0)."""
    objects: dict[int, bytes] = {
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: b"<</Title(" + _escaped(title) + b")>>",
        5: _IMAGE,
    }
    page_numbers = [10 + 2 * index for index in range(len(pages))]
    for number, page in zip(page_numbers, pages, strict=True):
        content = (
            b"BT /F1 12 Tf " + b"".join(b"1 0 0 1 %g %g Tm (%s) Tj " % (x, y, _escaped(t)) for x, y, t in page) + b"ET"
        )
        content += b" q 300 0 0 300 100 100 cm /I1 Do Q" if image else b""
        objects[number] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>/XObject<</I1 5 0 R>>>>>>" % (number + 1)
        )
        objects[number + 1] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    kids = b" ".join(b"%d 0 R" % number for number in page_numbers)
    objects[2] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages))
    objects[1] = b"<</Type/Catalog/Pages 2 0 R%s>>" % (b"/Outlines 6 0 R" if outline else b"")
    objects |= _outline(outline, page_numbers)
    return _file(objects)


def _outline(entries: Sequence[tuple[str, int]], pages: Sequence[int]) -> dict[int, bytes]:
    if not entries:
        return {}
    first, last = 1000, 1000 + len(entries) - 1
    found = {6: b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (first, last, len(entries))}
    for number, (title, page) in enumerate(entries, start=first):
        following = b"/Next %d 0 R" % (number + 1) if number < last else b""
        found[number] = b"<</Title(%s)/Parent 6 0 R/Dest[%d 0 R/Fit]%s>>" % (_escaped(title), pages[page], following)
    return found


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")


def _file(objects: dict[int, bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = {}
    for number, body in sorted(objects.items()):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, place)
    out += b"trailer<</Size %d/Root 1 0 R/Info 4 0 R>>\nstartxref\n%d\n%%%%EOF" % (max(objects) + 1, start)
    return bytes(out)
