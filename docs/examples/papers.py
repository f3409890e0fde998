"""Write docs/papers.md: what became of every claim of the papers.

python docs/examples/papers.py
"""

from __future__ import annotations

from pathlib import Path

from whence_studies.charts.papers_page import papers_page
from whence_studies.study import find_study, study_files

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    studies = [find_study(name) for name in study_files()]
    page = ROOT / "docs" / "papers.md"
    page.write_text(papers_page(studies, ROOT / "results"), encoding="utf-8")
    print(f"Wrote {page}")
