"""OpenTelemetry, which need not be installed."""

import importlib

from .._errors import WrongUse


def check_telemetry() -> None:
    """Raise ``WrongUse`` where OpenTelemetry is not installed."""
    try:
        importlib.import_module("opentelemetry.metrics")
    except ImportError as error:
        raise WrongUse("telemetry needs OpenTelemetry: pip install 'lanemq[otel]'") from error
