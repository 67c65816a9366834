"""A question over HTTP as `Ragforge` takes it: who may choose which model, and prompts that come back to be sent."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import secrets
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TypeVar, cast

from starlette.requests import HTTPConnection

from ragforge.app import AskOptions, Ragforge
from ragforge.domain.access import Role
from ragforge.domain.answers import Event, Prompted
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Usage
from ragforge.domain.pending import Pending
from ragforge.domain.retrieval import Tuning
from ragforge.errors import NotAllowed, RagforgeError, UserError
from ragforge.interfaces import choosing
from ragforge.interfaces.fields.answers import event_fields
from ragforge.interfaces.http.caller import Caller
from ragforge.interfaces.http.requests import AskRequest, PromptRequest, TuningFields
from ragforge.interfaces.http.serve import SEAL
from ragforge.interfaces.http.streams import Told, failure_told, internal_told
from ragforge.interfaces.records import decode, encode, json_text

T = TypeVar("T")

_OWN_RERANKERS = ("", "cosine", "cross-encoder")
"""Those that run here, and cost nothing."""

# -- who may choose what


def check_model(caller: Caller, model: str) -> None:
    """Raises `NotAllowed` if the caller may not choose this one."""
    choosing.check_model(caller.principal.role, caller.forge.settings.model, model)


def tuning_of(caller: Caller, asked: TuningFields) -> Tuning:
    return _checked(caller, asked.tuned(caller.forge.tuning()))


def _checked(caller: Caller, tuning: Tuning) -> Tuning:
    """The same for whoever reranks."""
    free = {*_OWN_RERANKERS, caller.forge.settings.search.reranker}
    if tuning.reranker not in free and caller.principal.role is not Role.ADMIN:
        raise NotAllowed(
            f"a key of the role {caller.principal.role} may not choose the reranker {tuning.reranker[:200]!r}",
            hint="use cosine or cross-encoder, or leave it out",
        )
    return tuning


# -- what was asked


def options_of(caller: Caller, project: str, asked: PromptRequest, cancel: Cancel, request: str = "") -> AskOptions:
    """How the question is to be answered. Looks up the conversation, so it is called in a thread."""
    forge = caller.forge
    if not asked.question.strip():
        raise UserError("the question is empty", hint="ask something")
    check_model(caller, asked.model)
    options: AskOptions = {
        "model": asked.model,
        "agent": asked.agent,
        "history": asked.turns(),
        "lock": asked.lock,
        "filters": asked.filters.record(),
        "tuning": _checked(caller, asked.tuned_for_answer(forge.tuning())),
        "system": asked.system,
        "output": asked.output,
        "shaping": asked.shaping(),
        "stop": tuple(asked.stop),
        "request": request or caller.request,
        "cancel": cancel,
    }
    if asked.conversation:
        options["conversation"] = forge.conversation(asked.conversation, project=project).id
    names = ("stages", "strictness", "temperature", "max_tokens")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    return cast(AskOptions, {**options, **given})


def asked_options(
    caller: Caller, project: str, asked: AskRequest, seals: Seals, cancel: Cancel, request: str = ""
) -> AskOptions:
    """The same with what only a question has that is really asked."""
    options = options_of(caller, project, asked, cancel, request)
    options["ephemeral"] = asked.ephemeral
    if asked.prompt is not None:
        prompted = seals.opened(caller.principal.id, asked.prompt.token)
        if caller.principal.key is not None:  # what it took was written down when it was made
            prompted = replace(prompted, account=replace(prompted.account, usage=Usage()))
        options["prompted"] = prompted if asked.prompt.texts is None else _with_texts(prompted, asked.prompt.texts)
    return options


def _with_texts(prompted: Prompted, texts: list[str]) -> Prompted:
    from ragforge.assemble.assemble import edited
    from ragforge.domain.tokens import estimated_tokens

    return replace(prompted, prompt=edited(prompted.prompt, texts, estimated_tokens))


def begun(forge: Ragforge, question: str, project: str, options: AskOptions) -> Iterator[Event | Pending]:
    """The answer as it comes. A project that is not there is told before anything is streamed."""
    return forge.answering(question, project=forge.project(project).slug, **options)


def told_events(events: Iterator[Event | Pending], caller: Caller, request: str) -> Iterator[Told | Pending]:
    """Each event of an answer as it is sent."""
    return telling(events, partial(_told, caller), request)


def telling(events: Iterator[T | Pending], told: Callable[[T], Told], request: str) -> Iterator[Told | Pending]:
    """Each event as it is sent; what goes wrong is the last of them."""
    try:
        for event in events:
            yield event if isinstance(event, Pending) else told(event)
    except RagforgeError as problem:
        yield failure_told(problem, request)
    except Exception as problem:
        yield internal_told(problem, request)
    finally:
        if isinstance(events, Generator):
            events.close()


def _told(caller: Caller, event: Event) -> Told:
    fields = event_fields(event)
    name = str(fields["event"])
    return Told(name, json_text(caller.seen({"event": name, "record": event} if caller.records else fields)))


# -- prompts that come back


class Seals:
    """Prompts on their way to the caller and back: what comes back is what was made here, for the same caller.

    Only then can it be believed what it says it found and took. Its texts may be changed, the rest may not.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = (secret or os.environ.get(SEAL) or secrets.token_hex(32)).encode()

    def sealed(self, principal: str, prompted: Prompted) -> str:
        account = replace(prompted.account, prompt=None)  # it is the prompt itself
        body = zlib.compress(json.dumps(encode(replace(prompted, account=account))).encode())
        return base64.urlsafe_b64encode(self._seal(principal, body) + body).decode()

    def opened(self, principal: str, token: str) -> Prompted:
        try:
            whole = base64.urlsafe_b64decode(token)
        except (ValueError, binascii.Error):
            whole = b""
        seal, body = whole[: sha256().digest_size], whole[sha256().digest_size :]
        if not hmac.compare_digest(seal, self._seal(principal, body)):
            raise UserError("the prompt was not made here, or not for you", hint="make it anew: POST …/prompt")
        return decode(Prompted, json.loads(zlib.decompress(body)))

    def _seal(self, principal: str, body: bytes) -> bytes:
        return hmac.digest(self._secret, principal.encode() + b"\0" + body, "sha256")


def seals_of(connection: HTTPConnection) -> Seals:
    return cast(Seals, connection.app.state.seals)
