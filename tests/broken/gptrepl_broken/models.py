"""Loaders that fail."""


class Lacking:
    def sources(self):
        return []

    def accepts(self, source):
        return False


class Grumpy(Lacking):
    def sources(self):
        raise SystemExit(1)

    def accepts(self, source):
        raise OSError("do not ask me")

    def load(self, source, options):
        return None


class Odd(Lacking):
    def accepts(self, source):
        return source.startswith("odd:")

    def load(self, source, options):
        if source == "odd:crash":
            raise ZeroDivisionError("by zero")
        if source == "odd:exit":
            raise SystemExit("bye")
        if source == "odd:late":
            return Late(), Bytes()
        if source == "odd:mute":
            return Late(calls=-9), Mute()
        return object(), object()


class Late:
    """It fails at its third token."""

    vocab_size = 256
    block_size = None

    def __init__(self, calls=0):
        self.calls = calls

    def logits(self, rows):
        import torch

        self.calls += 1
        return torch.zeros(len(rows), {3: "three"}.get(self.calls, 256))


class Bytes:
    vocab_size = 256

    def encode(self, text):
        return list(text.encode())

    def token_bytes(self, token):
        return bytes([token])


class Mute(Bytes):
    def token_bytes(self, token):
        raise KeyError(token)


lacking, grumpy, odd = Lacking(), Grumpy(), Odd()
