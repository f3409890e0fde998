"""Published tables and figures, run again: our number beside the printed one."""

from whence.studies.study import Study, find_study, read_study, study_files

__all__ = ["Study", "find_study", "read_study", "study_files"]
