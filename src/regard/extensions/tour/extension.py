"""The parts and commands of the tour of translation systems."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={
        "Start": [
            "regard.extensions.tour.quickstart_command:quickstart",
            "regard.extensions.tour.command:tour",
        ]
    },
)
