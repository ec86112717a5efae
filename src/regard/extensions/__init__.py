"""Extensions: parts, commands and routes on top of the package, which never imports them."""
