"""Whether somebody sits in front of this notebook who can type, click and look at web pages."""

from __future__ import annotations

import os

from tutorial_lib.course.record import RECORDS_VARIABLE


def interactive() -> bool:
    """Whether a person can answer: an IPython kernel whose front end says that it takes input.

    JupyterLab, Notebook and VS Code ask the kernel to allow input with every cell they send; papermill,
    nbclient and nbconvert do not. `./workshop run` and the tests set `$WORKSHOP_RECORDS`, which says no, too.

    Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html#execute (`allow_stdin`).
    """
    if os.environ.get(RECORDS_VARIABLE):
        return False
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return False
    request = kernel.get_parent() or {}
    return bool(request.get("content", {}).get("allow_stdin"))
