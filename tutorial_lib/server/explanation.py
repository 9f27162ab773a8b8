"""One failure out of a Triton log, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """Why one model, or the server, failed.

    Attributes:
        model: the model's folder; "" for the server itself.
        cause: in words.
        line: the guilty line as it stands in the log (two when protobuf's line belongs to it).
        fix: what to do.
        rule: the lint rule that finds it before a start, or "".
        known: False for a message that is only quoted.
        severity: "error", or "warning" when the model is served all the same.
        consequences: ensembles that are not served because of this.
        count: how often a request met it; 1 otherwise.
    """

    model: str
    cause: str
    line: str
    fix: str
    rule: str = ""
    known: bool = True
    severity: str = "error"
    consequences: tuple[str, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        head = f"{self.model or 'server'}: {self.cause}"
        if self.count > 1:
            head += f" ({self.count:,} times)"
        parts = [head, f"  fix   {self.fix}"]
        if self.consequences:
            parts.append(f"  so    not served either: {', '.join(self.consequences)}")
        if self.rule:
            parts.append(f"  rule  {self.rule} (./workshop lint finds it before a start)")
        return "\n".join([*parts, *(f"  log   {line}" for line in self.line.splitlines())])
