"""What the analysis refuses, in one place. A message is one sentence that a person can act on.

The names say the state that is refused, without the suffix "Error".
"""

from __future__ import annotations


class AnalysisError(ValueError):
    """The base of all that the command line prints as one sentence, with exit code 2."""


class EmptyRun(AnalysisError):  # noqa: N818
    """A run in which no measured trial has finished yet."""


class UnequalDigests(AnalysisError):  # noqa: N818
    """Two arms that did not run the same bits, or not on the same data."""


class NothingInCommon(AnalysisError):  # noqa: N818
    """Two runs without one cell that both measured."""
