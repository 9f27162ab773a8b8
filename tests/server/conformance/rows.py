"""All rows."""

from __future__ import annotations

from tests.server.conformance import rows_checks, rows_complete, rows_files, rows_ragged, rows_tensors

ROWS = (*rows_complete.ROWS, *rows_checks.ROWS, *rows_tensors.ROWS, *rows_ragged.ROWS, *rows_files.ROWS)
BY_NAME = {row.name: row for row in ROWS}
