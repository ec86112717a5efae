"""The convolutional encoder-decoder model of Gehring et al. (2017)."""
