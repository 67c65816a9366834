"""Mail (.eml) -> a block of headers, the body, and the names of what is attached."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.encoding import decode
from ragforge.ingest.parse.html import tree
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.text import CannotParse, MarkedText

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted")
_UNDECLARED = re.compile("[\udc80-\udcff]")
_BLANK_LINES = re.compile(r"\n(?:[ \t\xa0]*\n){2,}")


def parse(data: bytes, name: str) -> Parsed:
    """The message as a person reads it. Attachments are named, not parsed."""
    message = message_from_bytes(_as_ascii(data), policy=policy.default)
    assert isinstance(message, EmailMessage)
    if not any(message.get(header) for header in (*_HEADERS, "Received", "MIME-Version")):
        raise CannotParse(
            Reason.CORRUPT, "no mail headers: not a mail message", "export it from the mail program again"
        )
    block = "\n".join(f"{header}: {value}" for header in _HEADERS if (value := _header(message, header)))
    body = _body(message)
    if not body and _is_encrypted(message):
        raise CannotParse(Reason.ENCRYPTED, "encrypted", "decrypt it in the mail program and export it again")
    attached = _attachments(message)
    parts = [block, body, "Attachments: " + ", ".join(attached) if attached else ""]
    text = MarkedText()
    text.add("\n\n".join(filter(None, parts)))
    count = f"{len(attached)} attachment{'s' if len(attached) > 1 else ''}"
    notes = (f"{count} not read: {', '.join(attached)}"[:500],) if attached else ()
    return Parsed(text.text, title=_header(message, "Subject") or None, notes=notes)


def _as_ascii(data: bytes) -> bytes:
    """A message stored as UTF-16 in UTF-8, and without a byte order mark."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    elif data[:1] == b"\x00" or data[1:2] == b"\x00":
        data = data.decode("utf-16-be" if data[:1] == b"\x00" else "utf-16-le", "replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")


def _header(message: EmailMessage, name: str) -> str:
    """A header, decoded; several of one name together. Dates in a form that can be searched."""
    raw = [str(value) for key, value in message.raw_items() if key.lower() == name.lower()]
    try:
        values = raw if any(map(_UNDECLARED.search, raw)) else [str(value) for value in message.get_all(name, [])]
    except (MessageError, ValueError, IndexError, AttributeError, TypeError):  # malformed beyond what email mends
        values = raw
    value = ", ".join(" ".join(value.split()) for value in values if value.strip())
    if name == "Date":
        try:
            return parsedate_to_datetime(value).isoformat(" ", "minutes")
        except ValueError:
            return value
    return _undeclared(value)


def _undeclared(value: str) -> str:
    """Raw bytes in a header, which email keeps as lone surrogates, read as UTF-8 or cp1252."""
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _body(message: EmailMessage) -> str:
    """All that is shown of the message: plain text where there is a choice, else HTML."""
    shown = []
    for part in _shown_parts(message):
        text = _content(part)
        if part.get_content_type() == "text/html":
            text = markdown(tree(text))
        shown.append(_BLANK_LINES.sub("\n\n", text.replace("\r\n", "\n")).strip())
    return "\n\n".join(filter(None, shown))


def _shown_parts(part: EmailMessage) -> list[EmailMessage]:
    kind = part.get_content_type()
    if part.get_content_disposition() == "attachment":
        return []
    if part.is_multipart():
        children = [child for child in part.iter_parts() if isinstance(child, EmailMessage)]
        found = [_shown_parts(child) for child in children]
        if kind != "multipart/alternative":
            return [shown for child in found for shown in child]
        plain = [
            shown for shown in found if any(p.get_content_type() == "text/plain" and _content(p).strip() for p in shown)
        ]
        return next(iter(plain), next((shown for shown in found if shown), []))
    return [part] if kind in ("text/plain", "text/html", "text/markdown") else []


def _content(part: EmailMessage) -> str:
    """A text part, decoded by its charset, or a guess where that is wrong. What is UTF-8 often says it is not."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    declared = part.get_content_charset() or "utf-8"
    for charset in [declared] if data.isascii() else ["utf-8", declared]:
        try:
            return data.decode(charset)
        except (LookupError, UnicodeDecodeError):
            continue
    return decode(data)[0]


def _is_encrypted(message: EmailMessage) -> bool:
    return any(part.get_content_type() in _ENCRYPTED for part in message.walk())


def _attachments(message: EmailMessage) -> list[str]:
    """Names of the parts that are not shown."""
    names = []
    for part in message.walk():
        name = part.get_filename()
        if part.get_content_type() == "message/rfc822" and part.get_content_disposition() == "attachment":
            inner = next((child for child in part.iter_parts() if isinstance(child, EmailMessage)), part)
            name = name or _header(inner, "Subject") or "a message"
        if name and (part.get_content_disposition() == "attachment" or part.get_content_maintype() != "text"):
            names.append(" ".join(name.split()))
    return names
