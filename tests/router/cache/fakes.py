"""What the cache's tests stand on: an embedder and a guard that say what they are told, and requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from router.cache.embed import Vector
from router.cache.key import CacheTarget
from router.cache.serving import Calibration
from router.cache.threshold import Sample
from router.errors import EmbedderUnavailable
from router.request import ChatRequest, Finished, Message, Sampling, Usage

TARGET = CacheTarget("anna", "acme", "large-1", "2026-01")


@dataclass
class FakeEmbedder:
    """Texts under one name in ``meanings`` point the same way; every other text has its own direction."""

    meanings: Mapping[str, str] = field(default_factory=dict)
    id: str = "fake:1"
    dimension: int = 64
    missing: bool = False
    asked: list[str] = field(default_factory=list)

    def embed(self, text: str) -> Vector | None:
        self.asked.append(text)
        if self.missing:
            raise EmbedderUnavailable("It is not installed.")
        if len(text) > 500:
            return None
        return direction(self.meanings.get(text, text), self.dimension)


def direction(name: str, dimension: int = 64) -> Vector:
    """A unit vector of its own for each name, nearly at right angles to all others."""
    raw = np.random.default_rng(list(name.encode())).standard_normal(dimension)
    return np.asarray(raw / np.linalg.norm(raw), dtype=np.float32)


@dataclass
class FakeGuard:
    """Refuses pairs that hold a word in ``refused``."""

    version: str = "guard 1"
    names: tuple[str, ...] = ("words",)
    refused: tuple[str, ...] = ()

    def refuses(self, asked: str, stored: str) -> str:
        return next((word for word in self.refused if word in asked or word in stored), "")

    def is_word(self, word: str) -> bool:
        return True


def calibration(embedder: str = "fake:1", guards: str = "guard 1", hits: int = 200) -> Calibration:
    """Promises 2 % from a similarity of 0.9 on."""
    return Calibration("made up", "none", embedder, guards, tuple(Sample(0.9, True) for _ in range(hits)))


def question(text: str, *before: Message, temperature: float = 0.2) -> ChatRequest:
    return ChatRequest((*before, Message("user", text)), Sampling(temperature=temperature))


FINISHED = Finished("stop", Usage(prompt_tokens=12, completion_tokens=34), model="large-1", cost_usd=0.002)
