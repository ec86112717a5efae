"""Models of Hugging Face's library among ours: whole or in parts, as they are or trained further."""
