"""Mail: headers, the body a person reads, and attachments by name."""

from __future__ import annotations

from email.message import EmailMessage

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.mail import parse

HEAD = (
    b"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: Chairs\r\nDate: Tue, 3 Mar 2026 10:15:00 +0100\r\n"
)


def message() -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Jürgen Groß <j@example.org>"
    mail["To"] = "bob@example.org, eve@example.org"
    mail["Cc"] = "carl@example.org"
    mail["Date"] = "Tue, 03 Mar 2026 10:15:00 +0100"
    mail["Subject"] = "Angebot für Stühle"
    mail.set_content("Guten Tag,\n\ndie Stühle kosten 40 €.\n")
    return mail


def test_headers_and_body() -> None:
    parsed = parse(message().as_bytes(), "a.eml")
    assert parsed.title == "Angebot für Stühle"
    assert parsed.text == (
        "From: Jürgen Groß <j@example.org>\nTo: bob@example.org, eve@example.org\nCc: carl@example.org\n"
        "Date: 2026-03-03 10:15+01:00\nSubject: Angebot für Stühle\n\nGuten Tag,\n\ndie Stühle kosten 40 €."
    )


def test_plain_text_is_preferred_and_attachments_are_named() -> None:
    mail = message()
    mail.add_alternative("<p>Die <b>HTML</b>-Fassung</p>", subtype="html")
    mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="Preisliste März.pdf")
    parsed = parse(mail.as_bytes(), "a.eml")
    assert "die Stühle kosten" in parsed.text
    assert "Fassung" not in parsed.text
    assert parsed.text.endswith("Attachments: Preisliste März.pdf")
    assert parsed.notes == ("1 attachment not read: Preisliste März.pdf",)


def test_html_alone_becomes_markdown() -> None:
    data = (
        HEAD + b"Content-Type: text/html; charset=utf-8\r\n\r\n<h1>Hello</h1><p>See <a href='http://e.org'>this</a></p>"
    )
    assert parse(data, "a.eml").text.endswith("# Hello\n\nSee [this](http://e.org)")


def test_odd_charsets() -> None:
    koi8 = HEAD + b"Content-Type: text/plain; charset=koi8-r\r\n\r\n" + "Москва".encode("koi8-r")
    assert "Москва" in parse(koi8, "a.eml").text
    japanese = HEAD + b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n" + "東京".encode("iso-2022-jp")
    assert "東京" in parse(japanese, "a.eml").text
    mislabelled = HEAD + b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\n" + "Käse".encode()
    assert "Käse" in parse(mislabelled, "a.eml").text
    unknown = (
        HEAD + b"Content-Type: text/plain; charset=nonsense\r\n\r\n" + "für Käse und schöne Stühle".encode("cp1252")
    )
    assert "für Käse" in parse(unknown, "a.eml").text


def test_raw_bytes_in_headers() -> None:
    data = b"From: a@example.org\r\nSubject: K\xe4se\r\n\r\nbody"
    assert parse(data, "a.eml").title == "Käse"


def test_a_file_stored_as_utf_16() -> None:
    assert "body" in parse((HEAD + b"\r\nbody").decode().encode("utf-16"), "a.eml").text


def test_a_forwarded_message_is_read() -> None:
    inner, outer = message(), EmailMessage()
    outer["From"], outer["Subject"] = "x@example.org", "Fwd"
    outer.set_content("see below")
    outer.add_attachment(inner)
    parsed = parse(outer.as_bytes(), "a.eml")
    assert "see below" in parsed.text
    assert "Attachments: Angebot für Stühle" in parsed.text


def test_encrypted_mail_says_so() -> None:
    data = HEAD + b"Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\r\n\r\nAAAA"
    failure = registry.run("mail", data, "a.eml")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.ENCRYPTED


def test_what_is_no_mail_says_so() -> None:
    failure = registry.run("mail", b"just some words\nand more", "a.eml")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.CORRUPT
