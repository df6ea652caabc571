"""All that a plugin may import: the protocols, the events, the errors. It imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NewType, Protocol, TypeVar

from .errors import ExpectationError as ExpectationError
from .errors import GptreplError as GptreplError
from .errors import LoadError as LoadError
from .events import Ending as Ending
from .events import Event as Event
from .events import Failure as Failure
from .events import Notice as Notice
from .events import Progress as Progress
from .events import SampleEnded as SampleEnded
from .events import SampleStarted as SampleStarted
from .events import Table as Table
from .events import Token as Token
from .events import Transcript as Transcript
from .knobs import Choices as Choices
from .knobs import Knob as Knob
from .knobs import knob as knob

if TYPE_CHECKING:
    from torch import Tensor

Stage = Literal["penalty", "temperature", "truncation", "selection"]
"""Where a sampler stands in the default chain: the stages run in this order."""


Text = NewType("Text", str)
"""A text that is taken as it stands, spaces and all."""


# --- what a plugin provides ---------------------------------------------------------------------


class Model(Protocol):
    """A language model, seen as one pure function of token ids.

    Optional attributes:

    - `recommended: Mapping[str, Any]`: the sampling that its makers advise, by the names of
      settings and samplers; `:profile model` applies it;
    - `about: str`: how far it was trained, in words;
    - `replay_build(generator)`: makes the draws from a CPU generator that building it makes in
      nanoGPT's sample.py before the first token is drawn;
    - `positions(row, count)`: float32 logits, shape (count, vocab_size), after each of the last
      *count* prefixes of *row*, the last of them the row itself, for `:draft` and `:perplexity`;
      the row is no longer than the block;
    - `rough()`: a sequence of one cheap model whose logits are nearly its own, for the guesses of
      `:draft`; or an empty one;
    - `quantize: str`, `activation: str`, `device_map: str`: what it was loaded with of these
      options; a loader that does not know one leaves it out, and the user is told;
    - `bytes_per_token: int`: how many bytes of weights a token reads, for `gptrepl bench`;
    - `compiled`: what its steps were compiled to; None where they run as they are written;
    - `progress: Callable[[int, int], None] | None`: None, and set from outside while a long prompt
      may be read; then it is to be called with (done, total) between the layers of a long pass;
    - `complete(request)` and `idle(request)`: it samples by itself, as a `Writer` does;
    - `place: str`: where it runs, in words, if that is not a device of this machine;
    - `siblings: Iterable[str]`: the sources of other models at the same place.
    """

    @property
    def vocab_size(self) -> int:
        """The number of logits it gives for each row."""
        ...

    @property
    def block_size(self) -> int | None:
        """The longest row it looks at, in tokens; longer rows are cropped to their last ids.

        None: no limit of its own.
        """
        ...

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return float32 logits, shape (len(rows), vocab_size), for the token after each row.

        Every row holds at least one id. Calls do not influence each other: a cache may only
        show as speed.
        """
        ...


class Tokenizer(Protocol):
    """Text to ids, and each id back to the bytes it stands for.

    Optional attributes:

    - `end: int | Collection[int] | None`: the ids with which a text or a turn of a conversation
      ends, for the setting `stop_at_end`;
    - `start: Sequence[int]`: the ids that stand before every text, such as that of `<s>`;
    - `special: Collection[int]`: the ids that speak of a text and are no part of it; their bytes
      are their names;
    - `render(messages) -> str`: the text of a conversation, up to where the assistant's next turn
      begins. A message maps `role` (system, user, assistant) and `content` to texts.
    """

    @property
    def vocab_size(self) -> int:
        """The number of ids it knows: 0 to vocab_size - 1."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*; raise GptreplError where it cannot be written in ids."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id. Joined, and decoded as UTF-8, they give the text."""
        ...


@dataclass(frozen=True)
class Request:
    """What a `Writer` is asked for: a text that goes on behind *prompt*.

    In a chat *messages* are the conversation, each with its role and its content; then the next
    turn of the assistant is wanted, or the rest of it where the last message is the assistant's
    own, which a writer that `continues` is asked for. *samplers* are those that are on, in the
    order of the chain.
    """

    prompt: str
    max_new_tokens: int
    seed: int
    samplers: Mapping[str, Sampler]
    stop: tuple[str, ...] = ()
    stop_at_end: bool = False
    messages: tuple[Mapping[str, str], ...] = ()


class Writer(Protocol):
    """A model that samples by itself and gives its text: one that runs behind a server.

    It is a `Model` whose `logits` raises GptreplError, with these methods besides. Its tokenizer
    gives an id to each piece of text that comes along; such ids mean nothing to the model.

    Optional attribute: `continues: bool`, whether it can go on with a turn of the assistant.
    """

    def complete(self, request: Request) -> Generator[tuple[int, float], None, Ending]:
        """Yield (id, logprob) as the text comes, nan where it is not told; return why it ended.

        It is closed where the text is cut short. Raises GptreplError in one line.
        """
        ...

    def idle(self, request: Request) -> Mapping[str, str]:
        """Return why each setting or sampler that it cannot honour has no effect, by name."""
        ...


class Sampler(Protocol):
    """One link of the chain between logits and a token. Never edits its input.

    A sampler is a frozen dataclass whose fields are made with `knob`. The first field is its
    switch: the sampler is off while that field holds its default. Optional attributes:

    - `stage: ClassVar[Stage]` and `rank: ClassVar[int]`: its default place in the chain
      (`truncation` and 50 unless given; smaller ranks come first within a stage); one of the
      stage `selection` has to be the last, and the only one;
    - `aliases: ClassVar[tuple[str, ...]]`: more names for its command (`temp`);
    - `greedy: bool`: true when it leaves one token, so that no random number is drawn;
    - `rowwise: ClassVar[bool]`: true when it looks at no ids and takes several rows at once,
      shape (rows, vocab_size), each as if it were alone: samples drawn together share the call;
    - `bind(tokenizer, prompt_length) -> Sampler`: called once before a sample by those that
      speak of texts or of new tokens;
    - `begin(generator) -> Sampler`: called once for each sample by those that keep state or
      draw; the generator is the sampler's own. The sample is called through what it returns;
    - `idle(vocab_size) -> str`: why it has no effect as it is set, or an empty string.
    """

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return new logits for one row: *logits* is float32, shape (vocab_size,).

        *ids* is the whole row so far, prompt included. A token is removed by setting its
        logit to -inf; at least one has to stay.
        """
        ...


@dataclass(frozen=True)
class LoadOptions:
    """How a model is to be loaded."""

    device: str = "cpu"
    """What exists on this machine: `cpu`, `cuda:0`, `mps`."""
    dtype: str = "float32"
    """`float32`, `bfloat16` or `float16`: the type the weights are held in."""
    activation: str = "auto"
    """`gelu` or `gelu_new`, where a model has the choice; `auto`: what its own files say."""
    quantize: str = "off"
    """`bf16`, `int8` or `int4`: the bits that weights are held in. A model that does so says it
    by an attribute of this name."""
    compile: bool = False
    """Whether its steps are to be compiled. A model that can has an attribute `compiled`."""
    tokenizer: Tokenizer | None = None
    """The one the user chose; None: the loader finds the model's own."""
    device_map: str = "off"
    """`auto`: the model may be spread over all devices, where the loader can do that."""
    trust_remote_code: bool = False
    """Whether the user allows code that comes with a model to run."""
    note: Callable[[str], None] = lambda _text: None
    """Say one line to the user: what was assumed, what was left out."""
    progress: Callable[[str, int, int | None], None] = lambda _what, _done, _total: None
    """Report (what, done, total) of long work; total is None while it is unknown."""


class Loader(Protocol):
    """Turns a source such as `out/` or `gpt2-xl` into a model and its tokenizer.

    A module with these three functions is one. It may have a fourth, `files(source)`: the paths
    of the files that the weights are read from, for their hash in a receipt.
    """

    def sources(self) -> Iterable[str]:
        """Return the names it can load besides paths, for lists and completion."""
        ...

    def accepts(self, source: str) -> bool:
        """Return whether *source* is its to load, without importing torch."""
        ...

    def load(self, source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
        """Load it, or raise GptreplError with the one line the user needs."""
        ...


class Console(Protocol):
    """The terminal a command may borrow: `session.console`, None where there is none."""

    def lent(self) -> AbstractContextManager[None]:
        """Give the terminal to another program for as long as the context lasts."""
        ...

    def copy(self, text: str) -> None:
        """Ask the terminal to put *text* on the clipboard; it does not say whether it did."""
        ...


class Session(Protocol):
    """What a command may use of the session it runs in. It changes it by `apply` alone.

    `settings.but("typed", temperature=0.7)` makes other settings; they are frozen.
    """

    @property
    def settings(self) -> Any:
        """Every value it is under; the fields are those that `:show` lists."""
        ...

    @property
    def samples(self) -> Sequence[Any]:
        """The last samples: each has a `text`, a `prompt`, its `tokens` and its `seed`."""
        ...

    @property
    def model(self) -> Model:
        """The model; it is loaded first if it is not in memory yet."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; both are loaded first if they are not in memory yet."""
        ...

    @property
    def console(self) -> Console | None:
        """The terminal, where there is one."""
        ...

    def apply(self, settings: Any) -> Iterator[Event]:
        """Adopt *settings*, or raise GptreplError; it has happened when the events are over."""
        ...

    def stream(
        self, prompt: str | Sequence[str] | None = None, n: int | None = None, **changes: Any
    ) -> Iterator[Event]:
        """Yield the events of *n* samples of *prompt*; *changes* hold for them alone."""
        ...


F = TypeVar("F", bound=Callable[..., Any])


def command(*aliases: str, verbs: Mapping[str, Callable[..., Any]] = {}) -> Callable[[F], F]:
    """Mark a function as a colon command with more names than its entry point's.

    A command takes the session and typed arguments and yields events. The annotations parse
    what is typed, the docstring is the help. A plain function without this mark is one too.
    Where the first word is one of *verbs*, that function runs on the other words.
    """

    def mark(function: F) -> F:
        function.aliases = aliases  # type: ignore[attr-defined]
        function.verbs = verbs  # type: ignore[attr-defined]
        return function

    return mark


Changes = Mapping[str, Any]
"""Values by setting or sampler name, as typed, read from a profile or given in Python."""
