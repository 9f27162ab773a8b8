"""Compile an environment's packages on all processors: `python compile_all.py SITE_PACKAGES`.

One task is one package. `compileall` itself makes one of every file, and with twenty thousand of them
spends more time on handing out than it wins.
"""

from __future__ import annotations

import compileall
import concurrent.futures
import functools
import os
import re
import sys
from pathlib import Path

# These take as long as all the rest and little of them is ever imported; Python compiles a module at
# its first import anyway.
LEFT_OUT = re.compile(r"/site-packages/(?:.+/)?(?:tests?|transformers/models|torch/(?:_inductor|testing|distributed))/")


def compile_all(site: Path, workers: int) -> None:
    """Compile every package below `site`, the largest first; a file that does not compile is left."""
    folders = [path for path in site.iterdir() if path.is_dir()]
    folders.sort(key=lambda path: sum(len(files) for _, _, files in os.walk(path)), reverse=True)
    compiled = functools.partial(compileall.compile_dir, quiet=2, rx=LEFT_OUT)
    compileall.compile_dir(site, maxlevels=0, quiet=2)
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        list(pool.map(compiled, map(str, folders)))


if __name__ == "__main__":
    compile_all(Path(sys.argv[1]), len(os.sched_getaffinity(0)))
