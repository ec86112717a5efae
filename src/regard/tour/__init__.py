"""The tour: ten translation systems on the built-in corpus, from IBM Model 1 to hard attention.

Reading order: `systems`, `runner` (training and measurement), `report` (scores and HTML page).
"""
