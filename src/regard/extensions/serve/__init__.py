"""The web page and the JSON API of `regard serve`."""
