"""Audits: one question after another about a trained run, and the answers in one report."""

from whence.trust.audit.audited import Audited
from whence.trust.audit.auditor import Audit, audit
from whence.trust.audit.finding import Chart, Figure, Finding, Standing, Table
from whence.trust.audit.stages import STAGES, Stage
from whence.trust.audit.verdict import Verdict

__all__ = [
    "STAGES",
    "Audit",
    "Audited",
    "Chart",
    "Figure",
    "Finding",
    "Stage",
    "Standing",
    "Table",
    "Verdict",
    "audit",
]
