"""A Triton server as one object, whichever tier it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tutorial_lib.errors import ModelLoadError, ServerError
from tutorial_lib.repository.layout import models_of
from tutorial_lib.server.control import Control, without_credentials
from tutorial_lib.server.explain import Explanation, explain_log
from tutorial_lib.server.heal import Healing, heal
from tutorial_lib.server.health import Health, probe
from tutorial_lib.server.log import decisive_lines
from tutorial_lib.server.view import server_html
from tutorial_lib.server.weights import require_python_file

if TYPE_CHECKING:
    import pandas as pd

    from tutorial_lib.server.process import ServerProcess


class Server:
    """A running Triton.

    Use it as a context manager, or call `stop()`; without either it ends with this Python process.

    Attributes:
        tier: "embedded", "installed", "container" or "attached".
        version: the server's own version, such as "2.51.0".
        hardware: what it computes on, as far as this side can tell, such as "CPU ×2".
        http_url: "http://127.0.0.1:PORT".
        http_address: the same without the scheme, as tritonclient.http wants it.
        grpc_address: host and port for tritonclient.grpc.
        metrics_url: where Prometheus metrics are.
        repositories: the model repositories it was given; empty for "attached".
        log_path: its log; None for "attached".
    """

    def __init__(
        self,
        control: Control,
        *,
        tier: str,
        hardware: str,
        grpc_address: str,
        metrics_url: str,
        repositories: tuple[Path, ...] = (),
        process: ServerProcess | None = None,
    ) -> None:
        self.control = control
        self.tier = tier
        self.hardware = hardware
        self.http_url = control.url
        self.http_address = urlsplit(control.url).netloc
        self.grpc_address = without_credentials(grpc_address)
        self.metrics_url = metrics_url
        self.repositories = repositories
        self.process = process
        self.version: str = control.server_metadata().get("version", "unknown")

    @property
    def label(self) -> str:
        """What belongs beside every number measured here: "Triton 2.51.0 embedded · CPU ×2"."""
        return " · ".join(part for part in (f"Triton {self.version} {self.tier}", self.hardware) if part)

    @property
    def running(self) -> bool:
        return self.process.running if self.process else self.control.alive()

    @property
    def log_path(self) -> Path | None:
        return self.process.log if self.process else None

    @property
    def region_prefix(self) -> str | None:
        """How the names of this server's shared memory regions begin."""
        return self.process.region_prefix if self.process else None

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the log ("" on the attached tier, whose log is elsewhere)."""
        return "\n".join(self.process.log_text().splitlines()[-lines:]) if self.process else ""

    def decisive_lines(self) -> list[str]:
        """The log lines that say why something failed."""
        return decisive_lines(self.process.log_text()) if self.process else []

    def explain(self) -> list[Explanation]:
        """What failed since the start: per model the guilty log line, in words, with the fix."""
        return explain_log(self.process.log_text()) if self.process else []

    def models(self) -> pd.DataFrame:
        """Triton's repository index: name, version, state and reason of every model version."""
        import pandas as pd

        index = self.control.index()
        return pd.DataFrame(index, columns=["name", "version", "state", "reason"]).fillna("")

    def ready(self, model: str | None = None) -> bool:
        """Triton's own word on readiness; `health()` asks the model itself."""
        return self.control.ready(model)

    def health(self, model: str, *, timeout_s: float = 5.0) -> Health:
        """Whether a model answers a real request; truthy when it does, be it with an error of its own."""
        return probe(self.control, model, grpc_address=self.grpc_address, timeout_s=timeout_s)

    def heal(self, model: str) -> Healing:
        """Ask a model, and unload and load it if a process of its died; truthy when it answers now.

        Raises:
            ModelLoadError: it does not load again; with Triton's reason.
        """
        return heal(self, model)

    def metadata(self, model: str) -> dict[str, Any]:
        """Names, types and shapes of a model's tensors, as the server serves them."""
        return self.control.metadata(model)

    def config(self, model: str) -> dict[str, Any]:
        """A model's configuration in force, with what the server completed."""
        return self.control.config(model)

    def statistics(self, model: str) -> dict[str, Any]:
        """Triton's statistics of a model's newest version."""
        return self.control.statistics(model)[-1]

    def load(self, model: str, *, config: str | None = None) -> None:
        """Load or reload a model.

        Args:
            config: JSON that takes the place of its config.pbtxt, as Triton's load API has it. It holds until
                that file changes or the model is unloaded; a plain `load` afterwards changes nothing.

        Raises:
            RepositoryError: a Python model without its file, which Triton would load for ever.
            ModelLoadError: with Triton's reason and the decisive lines logged meanwhile.
        """
        for repository in self.repositories:
            for folder in models_of(repository):
                if folder.name == model:
                    require_python_file(folder)
        before = self.process.log_size() if self.process else 0
        try:
            self.control.load(model, config=config)
        except ModelLoadError as error:
            logged = decisive_lines(self.process.log_text(since=before)) if self.process else []
            # mostly the log says the same once more behind other first words
            logged = [line for line in logged if (line.partition(": ")[2] or line) not in error.problem]
            raise ModelLoadError(
                error.problem, action="Mend the model, then load it again.", details="\n".join(logged)
            ) from None

    def unload(self, model: str) -> None:
        self.control.unload(model)

    def stop(self) -> None:
        """End the server; on the attached tier only let go of it, since it is not ours."""
        # first, because Triton waits its whole exit timeout for open keep-alive connections
        self.control.close()
        if self.process:
            self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = self.http_address if self.running else "stopped"
        return f"<Server {self.label} · {state}>"

    def _repr_html_(self) -> str:
        if not self.running:
            return server_html(f"{self.label} — stopped", {"log": str(self.log_path or "")}, None)
        rows = {"HTTP": self.http_address, "gRPC": self.grpc_address, "metrics": without_credentials(self.metrics_url)}
        rows |= {
            "repository" if n == 0 else f"repository {n + 1}": str(path) for n, path in enumerate(self.repositories)
        }
        if self.log_path:
            rows["log"] = str(self.log_path)
        try:
            return server_html(self.label, rows, self.control.index())
        except ServerError as error:
            return server_html(self.label, rows, [{"name": error.problem}])
