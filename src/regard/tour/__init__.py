"""The tour: ten translation systems on the built-in corpus, from IBM Model 1 to hard attention.

Reading order: `stops` (the systems), `walk` (training and measurement), `page` (scores and report).
"""
