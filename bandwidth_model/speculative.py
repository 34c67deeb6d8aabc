"""Speculative decoding: a small model drafts, the large one verifies all drafts in one pass.

Owns the arithmetic of drafts and acceptance. Does not know whose drafts are good:
the acceptance is given.
"""

from __future__ import annotations

from bandwidth_model.predict import decode_terms
from bandwidth_model.rates import Rates
from bandwidth_model.shape import ModelShape


def expected_tokens(drafted: int, acceptance: float) -> float:
    """Tokens gained by one pass: the accepted drafts up to the first wrong one, and the verifier's own.

    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, equation 1.
    """
    if acceptance >= 1:
        return drafted + 1.0
    return (1 - acceptance ** (drafted + 1)) / (1 - acceptance)


def verify_s(shape: ModelShape, rates: Rates, tokens: int, depth: float = 0) -> float:
    """One pass over ``tokens`` tokens at once: bound by arithmetic or by reading the weights once."""
    one = decode_terms(shape, rates, depth, shape.kv_type)
    if tokens <= 1:
        return one.total_s
    arithmetic_s = shape.flops_per_token(depth) * tokens / rates.prefill_flops_per_s
    reading_s = one.weights_s * shape.read_bytes_for_batch(tokens) / shape.bytes_per_token
    return max(arithmetic_s, reading_s) + one.kv_s + one.layers_s + one.token_s


def speculative_tokens_per_s(
    target: tuple[ModelShape, Rates],
    draft: tuple[ModelShape, Rates],
    *,
    drafted: int,
    acceptance: float,
    depth: float = 0,
) -> float:
    """Decode rate of ``target`` helped by ``draft``; below the plain rate where drafts do not pay."""
    draft_s = decode_terms(*draft, depth, draft[0].kv_type).total_s
    pass_s = drafted * draft_s + verify_s(*target, drafted + 1, depth)
    return expected_tokens(drafted, acceptance) / pass_s
