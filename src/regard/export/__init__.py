"""Models for other engines: what runs outside of PyTorch, written from a model folder."""
