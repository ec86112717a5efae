"""Text as tensors: preprocessing, prepared data sets, batches, and fertilities and links of a text."""
