"""The app that many start with: FastAPI with the model inside. Notebook 10 measures it, then replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.naive.start import VARIANTS, start_naive

__all__ = ["VARIANTS", "start_naive"]

__getattr__ = lazy_names(__name__, {"VARIANTS": "tutorial_lib.naive.start", "start_naive": "tutorial_lib.naive.start"})
