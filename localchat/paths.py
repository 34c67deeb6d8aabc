"""Where files live: the platform's own folders, or LOCALCHAT_HOME for all of them.

Knows only places; what lies there is for those who put it there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import UsageError


@dataclass(frozen=True, slots=True)
class Paths:
    config: Path
    data: Path
    cache: Path

    @property
    def settings(self) -> Path:
        return self.config / "config.toml"

    @property
    def history(self) -> Path:
        return self.data / "history.db"

    @property
    def answers(self) -> Path:
        """Of the cloud, kept by the cache."""
        return self.data / "answers.db"

    @property
    def models(self) -> Path:
        return self.data / "models"


def find_paths() -> Paths:
    """The folders of this user; none is created here. Raises UsageError when nobody knows where."""
    home = os.environ.get("LOCALCHAT_HOME")
    if home:
        root = Path(os.path.expanduser(home))
        if str(root).startswith("~"):
            raise UsageError(f"LOCALCHAT_HOME={home}: there is no such user.", "Give the whole path.")
        return Paths(root / "config", root / "data", root / "cache")
    import platformdirs

    return Paths(
        Path(platformdirs.user_config_dir("localchat")),
        Path(platformdirs.user_data_dir("localchat")),
        Path(platformdirs.user_cache_dir("localchat")),
    )
