"""Our side's answer in the same canonical form as read_relax gives."""
from as_text import DTYPES
from canonical import fingerprint

_long_dtypes = {short: long for long, short in DTYPES.items()}


def skeletons(answer):
    out = {}
    for name, rows in answer["skeletons"].items():
        out[name] = [[row[0], row[1], fingerprint(row[2]), row[3], _long_dtypes[row[4]]]
                     if row[0] == "storage" else row for row in rows]
    return out


class Function:
    def __init__(self, function, name_of_line, storages_are_added):
        self.function = function
        self.names = []         # of bindings, canonical
        self.canonical = {}     # of storages
        paths = {0: ""}
        self.blocks = {"": []}  # path: numbers of bindings
        for number, b in enumerate(function["bindings"]):
            name = name_of_line[b["line"]]
            if "storage" in b:
                if storages_are_added:
                    name = "S:" + name
                self.canonical[b["storage"]] = name
            self.names.append(name)
            for i, block in enumerate(b.get("blocks", ())):
                paths[block] = f"{name}.{i}"
                self.blocks[paths[block]] = []
            self.blocks[paths[b["block"]]].append(number)

    def value(self, name):
        return self.canonical.get(name, name)

    def read(self):
        f = self.function
        gone = {self.value(s["name"]) for s in f["storages"]
                if s["lifted"] and f["allocation"] is not None}
        launch_at, inside = {}, set()
        for region in f["regions"]:
            launch_at[region["bindings"][0]] = region["index"]
            inside.update(region["bindings"])
        sequence = {}
        for path, numbers in self.blocks.items():
            rows = sequence[path] = []
            for number in numbers:
                if number == f["allocation"]:
                    rows.append("allocation")
                if number in launch_at:
                    rows.append(f"launch {launch_at[number]}")
                if number not in inside and self.names[number] not in gone:
                    rows.append(self.names[number])
        return {
            "sequence": sequence,
            "regions": [{"index": r["index"], "function": r["function"],
                         "inputs": [self.value(v) for v in r["inputs"]],
                         "outputs": [self.value(v) for v in r["outputs"]],
                         "symbols": r["symbols"],
                         "bindings": [self.names[n] for n in r["bindings"]]}
                        for r in f["regions"]],
            "storages": {self.value(s["name"]): s["slot"] for s in f["storages"]
                         if s["slot"] is not None},
            "undefined": sorted(self.value(v) for v in f["undefined"])}


def rewritten(answer, name_of_line, storages_are_added):
    seed = answer["seed"]
    if seed["merge_fails"]:
        return {"exception": "merge"}
    functions = [Function(f, name_of_line, storages_are_added) for f in seed["functions"]]
    return {"slots": [[size, scope, functions[owner].value(name)]
                      for size, scope, owner, name in seed["slots"]],
            "functions": {f.function["name"]: f.read() for f in functions}}
