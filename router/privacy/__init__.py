"""What must not leave unseen: structured identifiers and secrets in the whole outgoing payload.

:func:`scan` says what is there, :func:`redact` takes it out and :class:`Redaction` puts it back into
the answer, :func:`preview` shows what would leave. Names, street addresses and birthdays are not
found: this claims structured identifiers and secrets, never "all personal data" (docs/privacy.md).
What is done about a find is :mod:`router.outbound`'s business.
"""

from router.privacy.kinds import Kind
from router.privacy.outgoing import preview
from router.privacy.redaction import Redaction, redact
from router.privacy.restoring import Restorer, restored
from router.privacy.scanning import Finding, Findings, Place, counted, scan, scan_text

__all__ = [
    "Finding",
    "Findings",
    "Kind",
    "Place",
    "Redaction",
    "Restorer",
    "counted",
    "preview",
    "redact",
    "restored",
    "scan",
    "scan_text",
]
