"""Text from strangers, made harmless for a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """File names and headers come from strangers: nothing in them may steer the terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
