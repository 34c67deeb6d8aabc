"""Which llama.cpp is installed, and what it was built for.

The second is told by the library itself: run as a process of its own, since loading
a native library can crash and must not take a report down with it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

from localchat.engines.llama_binding import load_binding


def installed_build() -> str:
    """Tells one build from another by its files, without loading them; "none" where there is none."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        return "none"
    digest = hashlib.sha256()
    for file in sorted((Path(spec.origin).parent / "lib").iterdir()):
        known = file.stat()
        digest.update(f"{file.name} {known.st_size} {known.st_mtime_ns};".encode())
    return digest.hexdigest()[:12]


def main() -> None:
    binding = load_binding()
    print(
        json.dumps(
            {
                "llama.cpp": binding.llama_version().decode(),
                "features": binding.llama_print_system_info().decode().strip(),
                "gpu": bool(binding.llama_supports_gpu_offload()),
            }
        )
    )


if __name__ == "__main__":
    main()
