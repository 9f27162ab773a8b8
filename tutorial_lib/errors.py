"""The exceptions of this library.

    WorkshopError
    ├── SetupError            the machine or the environment cannot do what was asked
    ├── ServerError           a Triton server did not start, answer or stop as asked
    │   ├── PortInUseError
    │   ├── AnsweredError     the server answered, with an error
    │   └── ModelLoadError
    ├── GatewayError          a gateway cannot be set up as asked
    ├── RepositoryError       a model repository is not where, or not what, Triton expects
    ├── CheckpointError       a checkpoint is missing, cut or of another kind
    ├── LoadError             a load run cannot be planned or carried out as asked
    ├── ExportError           a model cannot be exported as asked
    │   └── ParityError       the exported model answers differently
    ├── NotebookError         a notebook cannot be run as asked
    └── ExerciseError         an exercise was attempted and is not right yet

Every message names the object, what was found, what was expected and what to do next.
"""

from __future__ import annotations


class WorkshopError(Exception):
    """An error a learner is meant to read.

    Args:
        problem: one or two sentences: the object, what was found, what was expected.
        action: the next thing to do, as a sentence.
        details: evidence, such as the decisive lines of a log; shown last, unaltered.
    """

    def __init__(self, problem: str, *, action: str = "", details: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.action = action
        self.details = details

    def __str__(self) -> str:
        text = " ".join(part for part in (self.problem, self.action) if part)
        return f"{text}\n\n{self.details}" if self.details else text

    def __reduce__(self):  # keyword arguments survive a trip to another process
        return (_rebuild, (type(self), self.problem, self.action, self.details))

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: show the message, not a traceback through this library."""
        return [f"{type(self).__name__}: {self}"]


def _rebuild(kind: type[WorkshopError], problem: str, action: str, details: str) -> WorkshopError:
    return kind(problem, action=action, details=details)


class SetupError(WorkshopError):
    """The machine or the environment cannot do what was asked."""


class ServerError(WorkshopError):
    """A Triton server did not start, answer or stop as asked."""


class PortInUseError(ServerError):
    """A port that was asked for is taken."""


class AnsweredError(ServerError):
    """A Triton server answered a request with an error."""


class ModelLoadError(ServerError):
    """Triton refused to load a model."""


class GatewayError(WorkshopError):
    """A gateway cannot be set up as asked."""


class RepositoryError(WorkshopError):
    """A model repository is not where, or not what, Triton expects."""


class CheckpointError(WorkshopError):
    """A checkpoint is missing, cut or of another kind."""


class LoadError(WorkshopError):
    """A load run cannot be planned or carried out as asked."""


class ExportError(WorkshopError):
    """A model cannot be exported as asked."""


class ParityError(ExportError):
    """An exported model answers differently from the model it was made from."""


class NotebookError(WorkshopError):
    """A notebook cannot be run as asked."""


class ExerciseError(WorkshopError):
    """An exercise was attempted and is not right yet."""
