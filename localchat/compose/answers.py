"""Builds the cache of a cloud's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localchat.paths import Paths

if TYPE_CHECKING:
    from router.cache.answers import AnswerCache


def build_cache(paths: Paths) -> AnswerCache:
    """Opens and loads nothing before it is asked; without its embedder it serves repeats only."""
    from router.cache.answers import AnswerCache
    from router.cache.embed import MiniLM
    from router.cache.guard.compare import WordGuard
    from router.privacy import scan_text

    return AnswerCache(
        paths.answers, MiniLM(), WordGuard(), has_personal_data=lambda text: bool(scan_text(text))
    )
