"""Where the key of a cloud comes from, and how it is kept out of everything else.

A key is read from the keyring or from one environment variable, when it is first needed;
it is never written anywhere. Its only way out is :meth:`ApiKey.reveal`, which only the client calls.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from router.errors import CloudMisconfigured

SERVICE = "localchat"  # under which keys are filed in the keyring
LONGEST = 4096  # characters; OpenAI's have about 160
HIDDEN = "[key]"

Lookup = Callable[[str, str], str | None]
"""(service, user name) -> the secret, as ``keyring.get_password``."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A secret that no repr, log or traceback shows."""

    _secret: str = field(repr=False)

    def reveal(self) -> str:
        return self._secret

    def redact(self, text: bytes) -> bytes:
        """``text`` with the key struck out: a server may quote what it was sent."""
        return text.replace(self._secret.encode(), HIDDEN.encode())

    def __str__(self) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class FoundKey:
    """``source`` says in words where the key was found, or where it was looked for."""

    key: ApiKey | None
    source: str


def find_key(place: str, variable: str, environ: Mapping[str, str], lookup: Lookup | None = None) -> FoundKey:
    """The key for ``place`` (host and port): the keyring's, else the variable's.

    Raises CloudMisconfigured for one that cannot be a key; it is not quoted.
    """
    secret = (lookup or look_up_in_keyring)(SERVICE, place)
    if secret:
        return FoundKey(_checked(secret, "The keyring's key"), f"the keyring, for {place}")
    if variable and (secret := environ.get(variable, "").strip()):
        return FoundKey(_checked(secret, variable), f"the environment variable {variable}")
    where = f" and {variable} is not set" if variable else ""
    return FoundKey(None, f"none: the keyring has none for {place}{where}")


def look_up_in_keyring(service: str, name: str) -> str | None:
    """None without the package ``keyring``, or where the keyring is locked or absent."""
    try:
        keyring = importlib.import_module("keyring")
        found = keyring.get_password(service, name)
    except Exception:  # its backends raise what they like; the environment remains
        return None
    return found if isinstance(found, str) else None


def _checked(secret: str, name: str) -> ApiKey:
    secret = secret.strip()
    if not secret.isascii() or not secret.isprintable() or " " in secret or len(secret) > LONGEST:
        raise CloudMisconfigured(
            f"{name} is not a key: it has spaces, line ends or other odd characters.", "Set it again."
        )
    return ApiKey(secret)
