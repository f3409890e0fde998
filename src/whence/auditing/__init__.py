"""Audits: one question after another about a trained run, and the answers in one report."""

from whence.auditing.audited import Audited
from whence.auditing.auditor import Audit, audit
from whence.auditing.finding import Chart, Figure, Finding, Standing, Table
from whence.auditing.stages import STAGES, Stage
from whence.auditing.verdict import Verdict

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
