"""`regard serve`: serve models with a web page and a JSON API."""

from regard.cli.api_flags import ATTENTION_FLAGS, ApiCall, ApiCommand
from regard.cli.output import print_message


@ApiCommand(
    "regard.extensions.serve.run:serve_models",
    ["models"],
    panels={
        "Address": "host port allow_origins allow_hosts",
        "Check": "checker detector",
        **ATTENTION_FLAGS,
        "Computation": "precision device num_threads",
        "Limits": "batch_window batch_size max_queued_sentences request_timeout max_request_bytes "
        "max_characters max_sentences max_words max_beam_size max_connections",
    },
)
def serve(call: ApiCall) -> None:
    """Serve models with a web page for translation and interactive attention maps, and with a JSON API.

    With a checker, the page marks words that are probably omitted, added, repeated or changed, in its own
    translations and in those that you enter. --detector chooses the one that the page uses first; it is
    `combined` with a checker. The web page is at /, the description of the API at /openapi.json. Ctrl-C or
    SIGTERM stops the server after the running requests are finished.

    Example: regard serve runs/first runs/second --port 8080

    Example: regard serve runs/first --checker checker
    """
    call(on_ready=print_message)
