"""What must not leave unseen: structured identifiers and secrets in the whole outgoing payload.

:func:`scan` says what is there, :func:`redact` takes it out and :class:`Redaction` puts it back into
the answer, :func:`preview` shows what would leave. Names, street addresses and birthdays are not
found: this claims structured identifiers and secrets, never "all personal data" (docs/privacy.md).
:func:`treatment` is what a profile makes of a find.
"""

from router.privacy.kinds import Kind
from router.privacy.outgoing import preview
from router.privacy.redaction import Redaction, redact
from router.privacy.restoring import Restorer, restored
from router.privacy.scanning import Finding, Findings, Place, counted, scan, scan_text
from router.privacy.treatment import Action, Profile, Treatment, treatment

__all__ = [
    "Action",
    "Finding",
    "Findings",
    "Kind",
    "Place",
    "Profile",
    "Redaction",
    "Restorer",
    "Treatment",
    "counted",
    "preview",
    "redact",
    "restored",
    "scan",
    "scan_text",
    "treatment",
]
