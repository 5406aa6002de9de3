"""Named errors: a user's mistake says what was wrong, with the figures, and what to do.

`UserError` and its kinds are mistakes that the caller can mend; the command line prints their message
without a traceback and exits with 2. Everything else that escapes is a bug of ours.
"""

from __future__ import annotations


class InferLabError(Exception):
    """Base of every error that this library raises on purpose."""


class UserError(InferLabError, ValueError):
    """Something given to the library cannot work; the message says why and what would."""


class UnknownModelError(UserError):
    """The model is neither a known name, a `dummy:` preset, nor a readable path."""


class CheckpointError(UserError):
    """A checkpoint file is damaged, incomplete, or of a kind that cannot be read."""


class UnsupportedOptionError(UserError):
    """An option exists in the field but not here; it is refused rather than ignored."""


class UnitError(UserError):
    """Units of different kinds were mixed, or a unit is unknown."""


class NotApplicableError(UserError):
    """A formula does not hold for this model or this GPU; it is refused rather than stretched."""


class OverloadError(UserError):
    """More work arrives than can be done, so there is no steady state; the message has both rates."""


class UnreachableTargetError(UserError):
    """No amount of hardware of this kind meets the target; the message says which figure stands in the way."""


class DoesNotFitError(UserError):
    """What was asked for needs more memory than there is; the message has both figures."""


class UnsupportedHardwareError(UserError):
    """This device cannot do what was asked; the message names what it can do instead."""


class QuantizationError(UserError):
    """A tensor cannot be quantized or packed as asked; the message names the sizes that can."""


class InvalidRequestError(UserError):
    """A request can never be served as given."""


class EmptyPromptError(InvalidRequestError):
    """The prompt holds no token."""


class PromptTooLongError(InvalidRequestError):
    """Prompt (plus at least one token to generate) does not fit the model's context."""


class RequestTooLargeError(InvalidRequestError):
    """The request needs more KV blocks than the whole pool has."""


class DuplicateRequestError(InvalidRequestError):
    """A request with this id is alive already."""


class QueueFullError(InferLabError):
    """The waiting queue is at its limit; try again later. Nothing was admitted."""


class SimulationTooLongError(UserError):
    """A simulation that was to be looked at step by step has more steps than can be shown; the message has the figures."""


class EngineError(InferLabError):
    """The engine itself failed; every waiting caller gets this."""


class EngineDeadError(EngineError):
    """The engine does not run any more: it was shut down, or it died. Every waiting caller gets this, and every later one."""


class EngineDrainingError(InferLabError):
    """The engine finishes what it has and takes nothing new; ask another one. Nothing was admitted."""
