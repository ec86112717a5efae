"""Functions that plot the figures of `regard figures`, one per figure, from the options of the command."""
