"""Analyses of models on a text: errors, attention, faithfulness of maps, and scores by length."""
