"""Checkpoint to Triton: the helper library behind the workshop's notebooks."""
