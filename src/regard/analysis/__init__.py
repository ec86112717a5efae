"""Analyses of models on a text: translation errors, attention, and scores by length, as result objects."""
