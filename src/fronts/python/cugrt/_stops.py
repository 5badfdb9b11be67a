"""Where an answer ends: the first of several texts in a text that comes in pieces."""
import collections
import typing

from ._errors import Error


def borders(text: str) -> list[int]:
    """Of each beginning of `text`: the length of its longest proper beginning that it also ends with."""
    lengths, length = [0], 0
    for letter in text[1:]:
        while length and letter != text[length]:
            length = lengths[length - 1]
        length += letter == text[length]
        lengths.append(length)
    return lengths


class StopSearch:
    """Lets a text through up to the first of the stop texts; holds back what may become one.

    Knuth, Morris and Pratt's search: a text costs steps in proportion to its length, whatever the stop texts are, and
    making one costs steps in proportion to theirs. For one generation, and for one thread at a time.

    ``stop``: a text, a list of texts, or None; an empty text or anything else is an error.
    """

    def __init__(self, stop: str | typing.Sequence[str] | None) -> None:
        texts = [stop] if isinstance(stop, str) else () if stop is None else stop
        if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) and one for one in texts):
            raise Error("stop is a text or a list of texts, none of them empty")
        self._texts = [(text, borders(text)) for text in texts]
        self._matched = [0] * len(texts)  # of each stop text, how much of it the text so far ends with
        self._held: collections.deque[str] = collections.deque()
        self._size = 0  # of what is held

    def take(self, piece: str, is_last: bool) -> tuple[str, bool]:
        """What of the text is let through after this further piece, and whether a stop text was found.

        After a stop text nothing is to be taken. The last piece lets all through.
        """
        cut, before = None, self._size
        self._held.append(piece)
        self._size += len(piece)
        for number, (text, lengths) in enumerate(self._texts):
            matched = self._matched[number]
            for at, letter in enumerate(piece, 1):
                while matched and letter != text[matched]:
                    matched = lengths[matched - 1]
                matched += letter == text[matched]
                if matched == len(text):
                    begin = before + at - matched
                    cut = begin if cut is None else min(cut, begin)
                    break
            self._matched[number] = matched
        if cut is not None:
            return self._let_through(cut), True
        return self._let_through(self._size - (0 if is_last else max(self._matched, default=0))), False

    def _let_through(self, size):
        parts, self._size = [], self._size - size
        while size:
            piece = self._held.popleft()
            parts.append(piece[:size])
            if len(piece) > size:
                self._held.appendleft(piece[size:])
            size -= len(parts[-1])
        return "".join(parts)
