"""What of a module is not taken: one error for all of it, so that nothing is imported by half."""

from cugrt import Code, Error


class Report:
    def __init__(self):
        self.found = {}  # sentence and code: places

    def add(self, what, place, code=Code.UNSUPPORTED):
        self.found.setdefault((what, code), []).append(place)

    def check(self):
        if not self.found:
            return
        lines, codes = [], {code for _, code in self.found}
        for (what, _), places in self.found.items():
            shown = ", ".join(places[:4]) + (", ..." if len(places) > 4 else "")
            lines.append(what if not places[0] else f"{what}: {len(places)} time{'s' * (len(places) > 1)}, at {shown}")
        if len(lines) > 1:
            kind = "not supported" if codes == {Code.UNSUPPORTED} else "wrong or not supported"
            lines.insert(0, f"{len(lines)} things are {kind}")
        raise Error("\n".join(lines), codes.pop() if len(codes) == 1 else Code.VERIFY_ERROR)
