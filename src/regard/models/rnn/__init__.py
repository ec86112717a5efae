"""Recurrent encoder-decoder models (LSTM, GRU), with recurrent or convolutional encoders."""
