"""How much memory of a device a model can have, of which size it is sold with.

Owns what is kept free for others. Does not ask this machine (machine.py does).
"""

from __future__ import annotations

from bandwidth_model.devices import GIB, Device

# llama.cpp leaves this much of every device free when it fits a model by itself
# (fit_params_target in common/common.h); of small memories a quarter at most.
KEPT_FREE_BYTES = GIB
MOST_KEPT_FREE = 0.25

# What Metal lets programs have of the memory (recommendedMaxWorkingSetSize in llama.cpp's logs):
# 10922 of 16384 MiB, 16384 of 24576; from 36 GiB on three quarters, 49152 of 65536.
METAL_SHARE, METAL_LARGE_SHARE = 2 / 3, 3 / 4
METAL_LARGE_BYTES = 36 * GIB


def assumed_memory_bytes(device: Device) -> int:
    """The size of memory taken where nobody says which: the smallest it is sold with."""
    return device.memory_bytes[0]


def room_bytes(device: Device, memory_bytes: int) -> int:
    """What a model can have of ``memory_bytes`` in such a device."""
    if device.silicon == "apple":
        share = METAL_LARGE_SHARE if memory_bytes >= METAL_LARGE_BYTES else METAL_SHARE
        return int(memory_bytes * share)
    return kept_free(memory_bytes)


def kept_free(memory_bytes: int) -> int:
    """What of ``memory_bytes`` is left when some is kept for others."""
    return int(memory_bytes - min(KEPT_FREE_BYTES, memory_bytes * MOST_KEPT_FREE))
