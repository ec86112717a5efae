"""Model directories: the description of a model, its weights and checksums, loading and averaging."""
