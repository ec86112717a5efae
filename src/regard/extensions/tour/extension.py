"""What the tour of translation systems adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={
        "Start": [
            "regard.extensions.tour.quickstart_command:quickstart",
            "regard.extensions.tour.command:tour",
        ]
    },
)
