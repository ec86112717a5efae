"""The settings of a server: its address, its batching and its limits."""

from regard.config import configclass, option


@configclass
class ServeConfig:
    """The settings of `regard serve`."""

    host: str = option(
        default="127.0.0.1", help="Address to listen on. 0.0.0.0 listens on all addresses of the machine."
    )
    port: int = option(default=8000, help="Port to listen on. 0 chooses a free port.", ge=0, le=65535)
    allow_origins: tuple[str, ...] = option(
        default=(),
        help="Origins whose pages may use the API, such as https://example.org. * allows all origins.",
    )
    allow_hosts: tuple[str, ...] = option(
        default=(),
        help="Host names that requests may use in addition to the listening address. * allows all names.",
    )
    num_threads: int | None = option(
        default=None,
        help="Number of CPU threads per model. Default: half of the processors.",
        ge=1,
        le=1_024,
    )
    max_connections: int = option(
        default=500,
        help="Maximum number of open connections; more are answered with 503.",
        ge=1,
        le=100_000,
    )
    batch_window: float = option(
        default=4.0,
        help="Time in milliseconds that a batch waits for another sentence; four times this in total.",
        ge=0,
        le=60_000,
    )
    batch_size: int = option(default=32, help="Maximum number of sentences in a batch.", ge=1, le=100_000)
    max_queued_sentences: int = option(
        default=1000, help="Maximum number of sentences that wait for a model.", ge=1, le=1_000_000
    )
    request_timeout: float = option(
        default=30.0, help="Maximum time of a request in seconds.", gt=0, le=86_400
    )
    max_request_bytes: int = option(
        default=256 * 1024, help="Maximum size of a request's body in bytes.", ge=1024, le=1_073_741_824
    )
    max_characters: int = option(
        default=20_000, help="Maximum number of characters in the texts of a request.", ge=1, le=100_000_000
    )
    max_sentences: int = option(
        default=200, help="Maximum number of sentences in a request.", ge=1, le=1_000_000
    )
    max_words: int = option(
        default=150,
        help="Maximum number of words in a sentence; the model accepts up to four tokens per word.",
        ge=1,
        le=100_000,
    )
    max_beam_size: int = option(
        default=10,
        help="Maximum beam size and maximum number of translations of a sentence.",
        ge=1,
        le=1_000,
    )

    def __post_init__(self) -> None:
        """Check the address, and that the queue has room for the largest request."""
        # An empty name would listen on all addresses.
        if not self.host:
            raise ValueError("host is empty: expected an address, such as 127.0.0.1, or 0.0.0.0 for all")
        if self.max_queued_sentences < self.max_sentences:
            raise ValueError(
                f"max_queued_sentences = {self.max_queued_sentences} has no room for a request of "
                f"max_sentences = {self.max_sentences}: expected max_queued_sentences >= max_sentences"
            )
