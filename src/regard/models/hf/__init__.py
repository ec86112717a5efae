"""Hugging Face models: whole models or pre-trained parts, used as they are or fine-tuned."""
