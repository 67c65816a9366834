"""The filter between a model and the reader: it lets through what is harmless, as soon as that is certain.

Markers become `[n]` of a source that was given, or vanish. An address passes only as plain text, and only if a source
holds it that is cited on the same line; in a code block, before it or soon after. So it is never said in the model's
own name. Images, HTML and links do not pass. Every decision rests on the text alone, never on how it came in pieces,
and on a bounded stretch of it. What leaves cannot become markup where it is joined: `](`, `]:` and `<a` are never
written, except in a code block that every reader of Markdown takes for one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import unescape

from ragforge.answer import clean as rules
from ragforge.answer.markers import BRACKETS, LONGEST, Known, Marker, marker
from ragforge.domain.answers import RemovedCitation
from ragforge.domain.prompts import Source

HELD_AT_MOST = 2_700
"""Characters that are ever held back."""
_LONGEST_TAG = 2_000
_LONGEST_TARGET = 1_800
_LONGEST_CODE = 500
_LONGEST_RUN = 512
_LONGEST_FENCE = 300
_LONGEST_SPACE = 8
_NEAR = 600
"""Characters after an address within which its source must be cited."""

_OPENING = "".join(BRACKETS)
_CLOSING = "".join(BRACKETS.values())
_ANY = re.escape(_OPENING + _CLOSING)
_PLAIN = re.compile(
    r"(?:\(?(?:[0-9]{1,9}\.[0-9]{1,8}|[^\W_]{1,64}(?:['’-][^\W_]{1,64})?+)\)?[.,;:?]?+ (?=[^\s"
    + re.escape(_OPENING)
    + r"]))++"
)
_RUN = re.compile(rf"[^\s{_ANY}<>()\"'`&!{{}}|，、；！？（）「」『』]{{1,{_LONGEST_RUN}}}")
_SPACE = re.compile(rf"[^\S\n]{{1,{_LONGEST_SPACE}}}")
_LABEL = re.compile(rf"[^{_ANY}\n]{{0,{LONGEST}}}")
_BROKEN_OFF = re.compile(r"[\s^#]*\d[\d\s,;-]*")
_TARGET = re.compile(r"\(([^()\n]{0,500}(?:\([^()\n]{0,200}\)[^()\n]{0,200}){0,3})\)")
_IN_TAG = re.compile(rf"[^<>]{{0,{_LONGEST_TAG}}}")
_TAG_NAME = re.compile(r"[/!?$]?[\w-]{0,20}")
_TICKS = re.compile(rf"`{{1,{_LONGEST_RUN}}}")
_TICKS_OR_END = re.compile(r"`+|\n")
_ENTITY = re.compile(r"&(#?[A-Za-z0-9]{0,40})")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]{0,40})[^\n]*")
_MAY_CLOSE = re.compile(r" {0,3}(?:`*|~*)[ \t]*")
_SAFE_ATTRIBUTE = (
    r"""\s+(?:class|id|name|type|value|alt|title|width|height|for|role|lang|key|disabled|checked)"""
    r"""(?:=(?:"[^"<>&\n]{0,60}"|'[^'<>&\n]{0,60}'))?"""
)
_SAFE_TAG = re.compile(
    r"</?(?!(?i:script|style|iframe|frame|object|embed|applet|base|meta|link|form|svg|math|img|image|video|audio|source"
    rf"|picture|track|input|isindex|portal|template|plaintext|xml)\b)[A-Za-z][\w:-]{{0,40}}(?:{_SAFE_ATTRIBUTE}){{0,3}}"
    r"\s?/?>"
)
_TAG_START = re.compile(r"<[A-Za-z/!?$]")
_NO_TAG = re.compile(r"<[A-Za-z][\w:-]{0,40}[^\s/>\w:-]")
_LONGEST_SAFE_TAG = 400
_OPENS = "(*_\"'“„‘«—–"
_ENDS = ".,;:!?)…”’»"


@dataclass(slots=True)
class _Address:
    """An address of a source, until it is known whether that source is cited beside it."""

    text: str
    sources: frozenset[int]
    at: int
    """How much was let through before it."""
    in_block: bool
    """Whether it stands in a code block, where nothing can be cited."""
    shown: str = ""
    """As it is let through; empty: not known yet."""

    def __str__(self) -> str:
        return self.shown

    @property
    def note(self) -> str:
        told = f"link to {rules.noted(self.text)}: source {min(self.sources)} holds it, and is not cited beside it"
        return "" if self.shown == self.text else told

    def refuse(self) -> None:
        self.shown = rules.LINK_IN_SOURCE.format(min(self.sources))


class StreamFilter:
    """Takes what a model writes in pieces of any size, and gives what may be shown."""

    def __init__(
        self, sources: Sequence[Source], allowed_links: Collection[str] = (), *, addresses: bool = True
    ) -> None:
        """`allowed_links` are shown anyway: those that a person wrote. `addresses`: may those of sources be shown?"""
        self.removed: list[RemovedCitation] = []
        self._notes: list[str | _Address] = []
        self._known = Known.of(sources)
        self._allowed = allowed_links
        self._addresses = addresses
        self._holders: dict[str, frozenset[int]] = {}
        for source in sources:
            for address in rules.links_in([source.text]):
                self._holders[address] = self._holders.get(address, frozenset()) | {source.number}
        self._plain = rules.Plain()
        self._held = ""
        self._out: list[str | _Address] = []
        self._passed = 0
        """How much was let through."""
        self._waiting: list[_Address] = []
        self._cited: set[int] = set()
        self._cited_here: set[int] = set()
        """On this line."""
        self._last = ""
        """The last character that was let through."""
        self._gap = False
        """Whether something vanished after it: then nothing may be joined to it."""
        self._after_link = False
        self._joins = False
        """Whether what follows a `<` in code was seen to be harmless."""
        self._dropping = False
        """Whether what follows still belongs to an address that was taken out."""
        self._fence = ""
        """What opened the code block that the text is in."""
        self._certain = True
        """Whether every reader of Markdown sees the same code; not after backticks that their line leaves open."""

    def feed(self, piece: str) -> str:
        """What is harmless so far."""
        return self._through(self._plain.feed(piece), final=False)

    def end(self) -> str:
        """The rest."""
        return self._through(self._plain.feed("", final=True), final=True)

    @property
    def stripped(self) -> list[str]:
        """What was taken out, in words."""
        return [note for note in (each if isinstance(each, str) else each.note for each in self._notes) if note]

    def _through(self, text: str, *, final: bool) -> str:
        text = self._held + text
        at = self._scan(text, final)
        self._held = text[at:]
        for each in self._waiting:
            if final or self._passed - each.at > _NEAR:
                each.refuse()
        self._waiting = [each for each in self._waiting if not each.shown]
        known = next((place for place, each in enumerate(self._out) if not str(each)), len(self._out))
        shown, self._out = "".join(map(str, self._out[:known])), self._out[known:]
        return shown

    def _scan(self, text: str, final: bool) -> int:
        """How far it was judged."""
        at = 0
        while at < len(text):
            following = self._step(text, at, final)
            if following is None:
                break
            at = following
        return at

    # -- one step: where the next begins, or None if that cannot be told yet

    def _step(self, text: str, at: int, final: bool) -> int | None:
        if self._dropping:
            end = rules.dropped_to(text, at)
            self._dropping = end == len(text)
            if end > at:
                return end
        if not self._fence and (plain := _PLAIN.match(text, at)):
            return self._pass(plain[0], plain.end())
        at_line_start = self._last in ("", "\n")
        if self._fence:
            return self._fenced(text, at, final, at_line_start)
        sign = text[at]
        if at_line_start and sign in "`~":
            opened = self._opened(text, at, final)
            if opened != at:
                return opened
        if sign.isspace():
            return self._space(text, at, final)
        if sign in BRACKETS:
            return self._bracket(text, at, at, final)
        if sign == "!":
            return self._bang(text, at, final)
        if sign == "<":
            return self._angle(text, at, final)
        if sign == "`":
            return self._ticks(text, at, final)
        return self._word(text, at, final)

    def _pass(self, shown: str, end: int) -> int:
        self._put(shown)
        return end

    def _space(self, text: str, at: int, final: bool) -> int | None:
        """White space; what stands before a marker goes with it."""
        space = _SPACE.match(text, at)
        if space is None:
            return self._pass("\n", at + 1)
        end = space.end()
        if end - at < _LONGEST_SPACE:
            if end == len(text):
                return self._pass(space[0], end) if final else None
            if text[end] in BRACKETS:
                return self._bracket(text, at, end, final)
        return self._pass(space[0], end)

    def _bracket(self, text: str, start: int, at: int, final: bool) -> int | None:
        """A marker, a link, or just a bracket."""
        before = text[start:at]
        end = _end(_LABEL, text, at + 1)
        if end == len(text) and end - at <= LONGEST:
            if not final:
                return None
            if _BROKEN_OFF.fullmatch(text, at + 1):
                self.removed.append(RemovedCitation(text[at:], "it breaks off"))
                return end
        if end < len(text) and text[end] in _CLOSING:  # of whatever kind: a reader hardly sees the difference
            inside = text[at + 1 : end]
            linked = self._target(text, end + 1, final) if text[at] + text[end] == "[]" else end + 1
            if linked is None:
                return None
            found = marker(inside, self._known)
            if linked > end + 1:
                self._put(before)
                self._link(inside, found, text[end + 2 : linked - 1])
                return linked
            if found is not None:
                self._cite(before, found)
                return end + 1
        return self._pass(before + text[at], at + 1)

    def _target(self, text: str, at: int, final: bool) -> int | None:
        """Where the target of a link ends that may begin here: here, if there is none."""
        if at == len(text):
            return at if final else None
        if text[at] != "(":
            return at
        if target := _TARGET.match(text, at):
            return target.end()
        undecided = len(text) - at < _LONGEST_TARGET and text.find("\n", at) < 0 and not final
        return None if undecided else at

    def _cite(self, before: str, found: Marker) -> None:
        self.removed.extend(found.removed)
        if not found.numbers:
            self._gap = True
            return
        self._put(before + found.text)
        self._cited.update(found.numbers)
        self._cited_here.update(found.numbers)
        for each in self._waiting:
            if not each.sources.isdisjoint(found.numbers) and self._passed - each.at <= _NEAR:
                each.shown = each.text
        self._waiting = [each for each in self._waiting if not each.shown]

    def _link(self, label: str, found: Marker | None, target: str) -> None:
        """A link's label, and its target as plain text if a source holds it."""
        if found is not None:
            self._cite("", found)
        else:
            self._inside(label)
        address = target.strip().partition(" ")[0].strip("<>")
        shown = " " if self._last and not self._last.isspace() else ""
        if self._is_known(address):
            if label.strip() != address:
                self._put(shown + "(")
                self._put_link(address)
                self._put(")")
        else:
            self._notes.append(f"link to {rules.noted(target)}")
            if not label.strip() or rules.find_link(address) >= 0 or address[:1] in ("/", "\\"):
                self._put(shown + rules.LINK_REMOVED)

    def _inside(self, text: str) -> None:
        """Text that is wholly there, such as a link's label."""
        self._scan(text, final=True)
        self._dropping = False

    def _bang(self, text: str, at: int, final: bool) -> int | None:
        """An image, or an exclamation mark."""
        if at + 1 == len(text) and not final:
            return None
        if text[at + 1 : at + 2] == "[":
            end = _end(_LABEL, text, at + 2)
            if end == len(text) and end - at <= LONGEST + 1 and not final:
                return None
            if text[end : end + 1] == "]":
                linked = self._target(text, end + 1, final)
                if linked is None:
                    return None
                if linked > end + 1:
                    self._notes.append(f"image {rules.noted(text[end + 2 : linked - 1])}")
                    return self._pass(rules.IMAGE_REMOVED, linked)
        return self._pass("!", at + 1)

    def _angle(self, text: str, at: int, final: bool) -> int | None:
        """A tag, a comment, an address in angle brackets, or less-than."""
        following = text[at + 1 : at + 2]
        if not following and not final:
            return None
        if not (following.isascii() and following.isalpha()) and following not in ("/", "!", "?", "$"):
            return self._pass("<", at + 1)
        if "<!--".startswith(text[at : at + 4]):
            close = text.find("-->", at + 4, at + _LONGEST_TAG)
            if close >= 0:
                return self._strip("HTML comment", close + 3)
            if len(text) - at < _LONGEST_TAG and not final:
                return None
        end = _end(_IN_TAG, text, at + 1)
        if end == len(text) and end - at <= _LONGEST_TAG and not final:
            return None
        if text[end : end + 1] != ">":
            return self._pass("< ", at + 1)
        inside = text[at + 1 : end]
        if not any(map(str.isspace, inside)) and rules.find_link(inside) >= 0:
            if self._is_known(inside):
                self._put_link(inside)
            else:
                self._put_removed(inside)
            return end + 1
        return self._strip(f"HTML {_end_of_name(inside)}".rstrip(), end + 1)

    def _strip(self, what: str, end: int) -> int:
        self._notes.append(what)
        self._gap = True
        return end

    def _word(self, text: str, at: int, final: bool, *, code: bool = False, exact: bool = False) -> int | None:
        """A run of letters and signs without white space, which may hold an address; or one other sign."""
        run = _RUN.match(text, at)
        if run is None:
            if text[at] == "&" and not exact:
                return self._ampersand(text, at, final)
            self._put(text[at], exact=exact)
            return at + 1
        end = run.end()
        if end == len(text) and not final:
            return None
        found = rules.find_link(text[at : end + 1], code=code and self._certain)
        if found < 0:
            self._certain &= "~~~" not in run[0] and "$$" not in run[0]
            self._put(run[0], exact=exact)
            self._gap |= end - at == _LONGEST_RUN and not exact  # an address could go on
            return end
        start = at + found
        end = rules.stretch_of(text, start)
        whole = end - start < rules.LONGEST_LINK
        if end == len(text) and whole and not final:
            return None
        self._put(text[at:start], exact=exact)
        address = rules.trimmed(text[start:end])
        if whole and self._is_known(address):
            self._put_link(address, exact=exact)
            return start + len(address)
        self._put_removed(text[start:end], exact=exact)
        self._dropping = not whole
        if whole:
            end = rules.dropped_to(text, start)
            end = start + max(1, len(text[start:end].rstrip(".,;:!?*_")))
        return end

    def _ampersand(self, text: str, at: int, final: bool) -> int | None:
        """An entity that was put together from parts must not come to life."""
        entity = _ENTITY.match(text, at)
        if entity is None or (entity.end() == len(text) and not final):
            return None
        alive = entity[1][:1] == "#" or (entity[1] and rules.is_telling(_meant(entity[1])))
        return self._pass("& " if alive else "&", at + 1)

    # -- code

    def _ticks(self, text: str, at: int, final: bool) -> int | None:
        """Code inside a line, or backticks that open nothing."""
        ticks = _end(_TICKS, text, at)
        if ticks == len(text) and ticks - at < _LONGEST_RUN and not final:
            return None
        size = ticks - at
        window = ticks + _LONGEST_CODE
        for sign in _TICKS_OR_END.finditer(text, ticks, window):
            if sign.end() == len(text) and sign.end() < window and sign[0] != "\n" and not final:
                return None
            if sign[0] == "\n":
                break
            if sign.end() - sign.start() == size:
                self._certain &= size < 3
                self._put(text[at:ticks])
                self._code(text[ticks : sign.start()])
                return self._pass(text[at:ticks], sign.end())
        else:
            if len(text) < window and not final:
                return None
        self._certain = False
        return self._pass(text[at:ticks], ticks)

    def _code(self, text: str) -> None:
        at: int | None = 0
        while at is not None and at < len(text):
            at = self._code_step(text, at, final=True, exact=False)
        self._dropping = False

    def _code_step(self, text: str, at: int, *, final: bool, exact: bool) -> int | None:
        """Code as it stands, but for addresses. Where a reader may not take it for code, no tag stays alive."""
        if self._dropping:
            end = rules.dropped_to(text, at)
            self._dropping = end == len(text)
            if end > at:
                return end
        if text[at] == "<" and not exact:
            if len(text) - at < _LONGEST_SAFE_TAG and text.find("\n", at) < 0 and not final:
                return None
            safe = _SAFE_TAG.match(text, at) or _NO_TAG.match(text, at) or not _TAG_START.match(text, at)
            self._put("<" if safe else "< ", exact=True)
            self._joins = bool(safe)
            return at + 1
        return self._word(text, at, final, code=True, exact=exact)

    def _opened(self, text: str, at: int, final: bool) -> int | None:
        """Past the line that opens a code block; here, if it opens none."""
        line = text.find("\n", at, at + _LONGEST_FENCE)
        window = text[at : at + _LONGEST_FENCE] if line < 0 else text[at:line]
        if line < 0 and len(window) < _LONGEST_FENCE and not final:
            return None if window.strip("`~") == "" or _FENCE.match(window) else at
        opening = _FENCE.fullmatch(window)
        if opening is None or len(window) == _LONGEST_FENCE or ("`" in window[opening.end(1) :] and text[at] == "`"):
            return at
        self._fence = opening[1]
        self._put(opening[1] + opening[2], exact=True)
        return at + len(window)

    def _fenced(self, text: str, at: int, final: bool, at_line_start: bool) -> int | None:
        if at_line_start:
            line = text.find("\n", at, at + _LONGEST_FENCE)
            window = text[at : at + _LONGEST_FENCE] if line < 0 else text[at:line]
            if _MAY_CLOSE.fullmatch(window):
                if line < 0 and len(window) < _LONGEST_FENCE and not final:
                    return None
                self._certain &= len(window) < _LONGEST_FENCE
                ticks = window.strip()
                if len(ticks) >= len(self._fence) and ticks[0] == self._fence[0]:
                    self._fence = ""
                    self._put(window, exact=True)
                    return at + len(window)
        return self._code_step(text, at, final=final, exact=self._certain)

    # -- what is shown

    def _put(self, shown: str, *, exact: bool = False) -> None:
        """Let it through, apart from what comes before it where the two would become something else."""
        if not shown:
            return
        self._part(shown, exact=exact)
        self._last = shown[-1]
        self._after_link &= not (shown[0].isspace() or self._last.isspace())
        self._let(shown)
        if self._last == "\n":  # it is always put by itself
            self._end_line()

    def _end_line(self) -> None:
        self._cited_here.clear()
        for each in self._waiting:
            if not each.in_block:
                each.refuse()
        self._waiting = [each for each in self._waiting if not each.shown]

    def _part(self, shown: str, *, exact: bool) -> None:
        first, last = shown[0], self._last
        if not exact and last and not last.isspace() and not first.isspace() and self._would_join(shown, first, last):
            self._let(" ")
            self._after_link = False
        self._gap = self._joins = False

    def _let(self, shown: str) -> None:
        self._out.append(shown)
        self._passed += len(shown)

    def _would_join(self, shown: str, first: str, last: str) -> bool:
        if self._gap and not all(sign in _ENDS for sign in shown) and (last not in _OPENS or self._after_link):
            return True
        if last == "]" and first in "(:":
            return True
        if last == "<":
            return not self._joins and (first.isalpha() or first in "/!?$")
        return self._after_link and not rules.closes(first)

    def _is_known(self, address: str) -> bool:
        return address in self._allowed or address in self._holders

    def _put_link(self, address: str, *, exact: bool = False) -> None:
        """An address that somebody wrote: at once if that was a person, else when its source is cited beside it."""
        sources = self._holders.get(address, frozenset())
        if address in self._allowed:
            self._put(address, exact=exact)
        elif not self._addresses:
            self._notes.append(
                f"link to {rules.noted(address)}: source {min(sources)} holds it, and nobody asked for it"
            )
            self._put(rules.LINK_IN_SOURCE.format(min(sources)), exact=exact)
        elif not sources.isdisjoint(self._cited if exact else self._cited_here):
            self._put(address, exact=exact)
        else:
            self._part(address, exact=exact)
            waiting = _Address(address, sources, self._passed, in_block=exact)
            self._out.append(waiting)
            self._notes.append(waiting)
            self._waiting.append(waiting)
            self._passed += len(address)
            self._last = "]"  # as which it may end
        self._after_link = True

    def _put_removed(self, address: str, *, exact: bool = False) -> None:
        self._notes.append(f"link to {rules.noted(address)}")
        self._put(rules.LINK_REMOVED, exact=exact)


def clean(
    text: str, sources: Sequence[Source] = (), allowed_links: Collection[str] = (), *, addresses: bool = True
) -> tuple[str, StreamFilter]:
    """A whole text as the filter lets it through, and the filter, which tells what it removed."""
    passed = StreamFilter(sources, allowed_links, addresses=addresses)
    return passed.feed(text) + passed.end(), passed


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _end_of_name(tag: str) -> str:
    found = _TAG_NAME.match(tag)
    return found[0] if found else ""


def _meant(name: str) -> str:
    meant = unescape(f"&{name};")
    return "" if meant == f"&{name};" else meant
