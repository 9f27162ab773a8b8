"""`./workshop solve`, `reset` and `status`: where a learner stands in the course."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def solve(
    notebook: Annotated[str, typer.Argument(help="Number or name, such as `04` or `launch`.")],
    output: Annotated[
        Path | None,
        typer.Option(help="File or folder of the copy; by default `workspace/solved/`.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a copy that differs.")] = False,
) -> None:
    """Write a copy of a notebook with every exercise solved; your own notebook is only read."""
    from tutorial_lib.course.solve import solve as write_solved

    solved = write_solved(notebook, output=output, replace=force)
    print(f"{'Solved copy:' if solved.written else 'Already there:'} {solved.path}")
    print(f"Replaced:    {', '.join(solved.cells)}")


def reset(
    notebook: Annotated[
        str, typer.Argument(help="Number or name of the notebook to be ready for; the whole workspace if left out.")
    ] = "00",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
) -> None:
    """Bring the workspace to the clean start of a notebook; what you made is set aside, notebooks are never touched."""
    from tutorial_lib.course.reset import carry_out, plan_reset, told

    plan = plan_reset(notebook)
    if plan.empty:
        print(f"Nothing to do: {plan.space.root} is as notebook {plan.notebook} finds it.")
        return
    print("\n".join(told(plan)), flush=True)
    if dry_run:
        print("Nothing was changed: --dry-run.")
        return
    backup = carry_out(plan)
    if backup:
        print(f"Set aside in {backup}; move back what you miss.")
    print(f"Ready for notebook {plan.notebook}.")


def status() -> None:
    """Show which exercises are done, and how good the predictions were."""
    from tutorial_lib.course.status import status_text

    print(status_text())
