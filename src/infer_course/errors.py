"""Named errors of the course tooling: a mistake in the content or on the command line, with what to do about it."""

from __future__ import annotations

from infer_lab.errors import UserError


class CourseError(UserError):
    """Something about the course's files, or how the tooling was called, cannot work; the message says what would."""


class NotACheckoutError(CourseError):
    """The folder is not a checkout of the course: it lacks `book/` and `questions/`."""


class UnknownIdError(CourseError):
    """No lesson, card, lab, measurement or set has this id."""


class CalcError(CourseError):
    """An expression of the `{calc}` role cannot be evaluated; the message gives the column where there is one."""


class MeasureError(CourseError):
    """A `{measured}` reference does not lead to a value of a record."""
