"""Building blocks of the models: recurrent, convolutional, feed-forward and position layers, and states."""
