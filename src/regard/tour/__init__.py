"""The lecture as a path: ten systems on the built-in corpus, from Model 1 to hard attention, side by side.

Reading order: `stops` (which systems), `walk` (train and measure each), `page` (score them and show them).
"""
