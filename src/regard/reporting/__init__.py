"""The HTML report: one offline page with the translations, attention and scores of several systems."""
