"""The record of every answer, reconstructible: who answered, why, at what cost, and what was judged."""

from router.consent import PrivacyAction
from router.ledger.entry import (
    Entry,
    Label,
    LabelName,
    Source,
    new_id,
    payload_bytes,
    prompt_sha256,
)
from router.ledger.ledger import Ledger
from router.ledger.totals import Totals

__all__ = [
    "Entry",
    "Label",
    "LabelName",
    "Ledger",
    "PrivacyAction",
    "Source",
    "Totals",
    "new_id",
    "payload_bytes",
    "prompt_sha256",
]
