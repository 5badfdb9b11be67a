"""What of a module is not taken: one error for all of it, so that nothing is imported by half."""

from cugrt import Code, Error


class Report:
    def __init__(self):
        self.found = {}  # sentence: places

    def add(self, what, place):
        self.found.setdefault(what, []).append(place)

    def check(self):
        if not self.found:
            return
        lines = []
        for what, places in self.found.items():
            shown = ", ".join(places[:4]) + (", ..." if len(places) > 4 else "")
            lines.append(what if not places[0] else f"{what}: {len(places)} time{'s' * (len(places) > 1)}, at {shown}")
        message = lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} things are not supported", *lines])
        raise Error(message, Code.UNSUPPORTED)
