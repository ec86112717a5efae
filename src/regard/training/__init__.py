"""Training: objectives, optimizers, checkpoints, the metrics log, validation and the training loop."""
