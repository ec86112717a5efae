"""The tour: ten translation systems on the built-in corpus, from IBM Model 1 to hard attention.

Reading order: `runner` (the systems of the tour, their training and costs), `report` (scores and HTML page of
the tour and of the quickstart).
"""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={
        "Start": [
            "regard.extensions.tour.command:quickstart",
            "regard.extensions.tour.command:tour",
        ]
    },
)
