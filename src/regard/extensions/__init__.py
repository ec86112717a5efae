"""Extensions: parts, commands and routes on top of the package. Nothing else imports them."""
