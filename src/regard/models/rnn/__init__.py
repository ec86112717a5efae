"""Recurrent encoder-decoder models (LSTM)."""
