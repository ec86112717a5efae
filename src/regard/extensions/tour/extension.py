"""The parts and commands of the tour of translation systems."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={
        "Start": [
            "regard.extensions.tour.command:quickstart",
            "regard.extensions.tour.command:tour",
        ]
    },
)
