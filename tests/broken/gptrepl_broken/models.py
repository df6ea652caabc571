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
        return object(), object()


lacking, grumpy, odd = Lacking(), Grumpy(), Odd()
