"""What a server is told: where it listens, how it batches, and how much it takes on."""

from regard.config import config, option
from regard.server.hosts import check_host

__all__ = ["ServeConfig"]


@config
class ServeConfig:
    """The settings of `regard serve`."""

    host: str = option(default="127.0.0.1", help="The address to listen on; 0.0.0.0: all of the machine's.")
    port: int = option(default=8000, help="The port; 0: a free one.", ge=0, le=65535)
    origins: tuple[str, ...] = option(
        default=(), help="Origins whose pages may use the API, as https://example.org; *: all."
    )
    hosts: tuple[str, ...] = option(
        default=(), help="More names to answer to, beside the address listened on; *: any."
    )
    connections: int = option(
        default=500, help="The most connections that are open at once.", ge=1, le=100_000
    )
    head: float = option(
        default=10.0,
        help="Seconds that the head of a request may take, and the reading of an answer.",
        gt=0,
        le=86_400,
    )
    window: float = option(
        default=4.0,
        help="Milliseconds that a batch waits for one more sentence; four times that in all.",
        ge=0,
        le=60_000,
    )
    batch: int = option(default=32, help="The most sentences translated together.", ge=1, le=100_000)
    queue: int = option(default=1000, help="The most sentences that wait for a model.", ge=1, le=1_000_000)
    seconds: float = option(default=30.0, help="How long a request may take.", gt=0, le=86_400)
    body: int = option(default=256 * 1024, help="The most bytes of a request.", ge=1024, le=1_073_741_824)
    characters: int = option(
        default=20_000, help="The most characters of a request's texts.", ge=1, le=100_000_000
    )
    sentences: int = option(default=200, help="The most sentences of a request.", ge=1, le=1_000_000)
    words: int = option(
        default=150,
        help="The most words of a sentence; a model reads four tokens for each at most.",
        ge=1,
        le=100_000,
    )
    beam: int = option(
        default=10, help="The widest beam, and the most translations, of a sentence.", ge=1, le=1_000
    )

    def __post_init__(self) -> None:
        """Refuse a queue that has no room for a single request, and what is no name of a host."""
        for name in self.hosts:
            check_host(name)
        if self.queue < self.sentences:
            raise ValueError(
                f"queue = {self.queue} has no room for a request of sentences = {self.sentences}"
            )
