"""GPUs that serve: what of their data sheet real kernels reach, and what they cost.

Owns efficiencies and prices by name. Bandwidth, memory and peak FLOPs are those of
bandwidth_model's device table and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandwidth_model.devices import Device, devices, find_device
from bandwidth_model.errors import UnknownDevice
from router.errors import InvalidSimulation


@dataclass(frozen=True, slots=True)
class Gpu:
    """``flops_share`` and ``bandwidth_share``: reached of the data sheet by whole layers, not single kernels.

    ``attention_share`` is of bandwidth, while sequences that decode read their KV cache, and
    ``mixed_share`` the same in a step that also computes prompts; ``overhead_s`` of one step what no kernel
    explains. ``usd_per_hour`` None: no usual price to rent it.
    """

    device: Device
    flops_share: float
    bandwidth_share: float
    attention_share: float
    mixed_share: float
    overhead_s: float
    usd_per_hour: float | None
    source: str

    @property
    def flops_per_s(self) -> float:
        return (self.device.half_flops_per_s or self.device.flops_per_s or 0.0) * self.flops_share

    @property
    def bytes_per_s(self) -> float:
        return self.device.bandwidth_bytes_per_s * self.bandwidth_share

    def attention_bytes_per_s(self, mixed: bool) -> float:
        return self.device.bandwidth_bytes_per_s * (self.mixed_share if mixed else self.attention_share)

    @property
    def memory_bytes(self) -> int:
        return max(self.device.memory_bytes)


_VIDUR = "vidur profiles: all linear ops at 1 and at 2048 tokens against the data sheet"
_OWN = (
    "kernel times of the card (LLMServingSim profile): linear ops at 32 and at 2048 tokens, attention of"
    " 32 sequences with 1024 tokens each, alone and beside a prompt"
)
_LIKE = "as the nearest measured card of its kind"
_AWS = "price: AWS on demand, us-east-1, 2024 (lower since)"
_UNCHECKED = "price as we remember AWS's of 2024, not checked"

GPUS: dict[str, tuple[str, float, float, float, float, float, float | None, str]] = {
    # name -> device, FLOPs, bandwidth, attention, mixed attention, overhead s, $/h, source
    "a100": ("A100 80GB SXM", 0.64, 0.70, 0.70, 0.70, 0.0, 5.12, f"{_VIDUR}; {_UNCHECKED} (p4de, an eighth)"),
    "a100-40gb": ("A100 40GB", 0.64, 0.70, 0.70, 0.70, 0.0, 4.10, f"{_LIKE}; {_AWS} (p4d, an eighth)"),
    "h100": (
        "H100 SXM",
        0.67,
        0.69,
        0.69,
        0.69,
        0.0,
        12.29,
        f"{_VIDUR} (Llama-2-7B); {_AWS} (p5, an eighth)",
    ),
    "h200": ("H200", 0.67, 0.69, 0.69, 0.69, 0.0, None, _LIKE),
    "rtx4090": ("RTX 4090", 0.96, 0.82, 0.74, 0.37, 0.0, None, _OWN),
    "l40s": ("L40S", 0.64, 0.82, 0.74, 0.37, 0.0, 1.86, f"{_LIKE}; {_UNCHECKED} (g6e.xlarge)"),
    "l4": ("L4", 0.64, 0.82, 0.74, 0.37, 0.0, 0.80, f"{_LIKE}; {_UNCHECKED} (g6.xlarge)"),
    "a30": ("A30", 0.64, 0.70, 0.70, 0.70, 0.0, None, _LIKE),
    "b200": ("B200", 0.67, 0.69, 0.69, 0.69, 0.0, None, _LIKE),
}


def find_gpu(name: str) -> Gpu:
    """By our name ("a100") or any name of the device table; unmeasured ones get usual shares."""
    row = GPUS.get(name.lower().replace(" ", "").replace("_", "-"))
    if row is not None:
        return Gpu(find_device(row[0]), *row[1:])
    try:
        device = _run_together(name) or find_device(name)
    except UnknownDevice as error:
        raise InvalidSimulation(str(error), f"GPUs with measured efficiencies: {', '.join(GPUS)}.") from error
    if not device.half_flops_per_s:
        raise InvalidSimulation(f"{device.name} has no known half-precision rate, so it cannot be simulated.")
    return Gpu(device, 0.64, 0.70, 0.70, 0.70, 0.0, None, _LIKE)


def _run_together(name: str) -> Device | None:
    """A device whose name is written without spaces, as folders of profiles write it: RTXPRO6000."""
    written = _letters(name)
    found = [device for device in devices() if written and _letters(device.name).startswith(written)]
    exact = [device for device in found if _letters(device.name) == written]
    return (exact or found)[0] if exact or len(found) == 1 else None


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
