"""The routes, by what they are about."""

from __future__ import annotations

from fastapi import APIRouter

from ragforge.interfaces.http import reference
from ragforge.interfaces.http.routes import (
    artifacts,
    chat,
    discovery,
    evaluations,
    files,
    health,
    jobs,
    lessons,
    log,
    mcp,
    memory,
    nodes,
    openai,
    projects,
    questions,
    streams,
    texts,
    usual,
    writers,
)

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    projects.router,
    texts.router,
    files.router,
    jobs.router,
    nodes.router,
    questions.router,
    chat.router,
    streams.router,
    usual.router,
    memory.router,
    artifacts.router,
    writers.router,
    log.router,
    evaluations.router,
    discovery.router,
    lessons.router,
    openai.router,
    mcp.router,
    reference.router,
)
