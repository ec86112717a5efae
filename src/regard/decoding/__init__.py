"""Search: beam, sampling, ensembles, forced decoding, and translators that read and write text."""
