"""Writes constraints.txt from what is installed in this environment: `make constraints`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "constraints.txt"
HEADER = """\
# The versions that are tested together: everything `make` installs, developer tools included.
# Read by scripts/setup.py. Refresh with `make constraints`, then run `make test`.
"""


def main() -> None:
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable"]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pinned = sorted((line for line in frozen.splitlines() if "==" in line), key=str.lower)
    FILE.write_text(HEADER + "".join(f"{line}\n" for line in pinned), encoding="utf-8")


if __name__ == "__main__":
    main()
