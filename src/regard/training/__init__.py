"""Training: objectives, optimizers, checkpoints, the record, validation, the loop over updates."""
