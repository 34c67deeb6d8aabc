"""What the installed llama.cpp was built for; run as a process of its own by doctor.

Loading a native library can crash: that must not take the report down.
"""

from __future__ import annotations

import json

from localchat.engines.llama_binding import load_binding


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
