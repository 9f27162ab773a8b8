"""Why a model was not loaded: Triton's reason, and what it means."""

from __future__ import annotations

from collections.abc import Sequence

from tutorial_lib.server.explain import Explanation
from tutorial_lib.server.reasons import explain_message


def in_words(name: str, reason: str, explanations: Sequence[Explanation]) -> str:
    """Triton's reason for one model, with cause and fix in words.

    Args:
        name: the model.
        reason: as in the repository index; a model that could not even be polled has none.
        explanations: of the server's log.
    """
    item = next((item for item in explanations if item.model == name), None)
    root = next((item.model for item in explanations if name in item.consequences), "")
    if item is None and root:
        return (
            f"'{name}': {reason or 'a step model is missing'}\n    in words: it needs '{root}', which was not loaded."
        )
    cause, fix, _, known = explain_message(reason) if reason else ("", "", "", False)
    if item is not None and not (known and not item.known):
        cause, fix, known = item.cause, item.fix, item.known
        reason = reason or item.line.splitlines()[-1]
    if not known:
        return f"'{name}': {reason or 'the log does not say why'}"
    return f"'{name}': {reason}\n    in words: {cause}\n    fix: {fix}"
