#!/usr/bin/env python3
"""cugrt attribute on exports made here, after the schema that Nsight Systems documents: by id, by order, what is none.

check_attribute.py CUGRT
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != status or (status and done.stderr.count("\n") != 1):
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return done


def graphs(ids):
    """Two graphs: three nodes, of which one is no kernel, and one."""
    nodes = [
        {"name": "matmul_f32_1 %h", "kind": "kernel", "kernel": "matmul_tiled", "line": 5},
        {"name": "join", "kind": "empty"},
        {"name": "softmax_rows_f32 %s", "kind": "kernel", "kernel": "softmax_rows", "line": 6},
    ]
    if ids:
        for number, node in enumerate(nodes):
            node["id"] = 7 << 32 | number
    other = [{"name": "relu_f32 %r", "kind": "kernel", "kernel": "relu", "line": 9}]
    return [
        {"function": "main", "region": "main_region0", "key": {}, "nodes": nodes},
        {"function": "main", "region": "main_region1", "key": {}, "nodes": other},
    ]


def export(path, kernels):
    """Kernels: (graphNodeId, name, start, end)."""
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        base.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER, "
            "graphNodeId INTEGER)"
        )
        names = sorted({kernel[1] for kernel in kernels})
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?, ?)",
            [(start, end, names.index(name), node) for node, name, start, end in kernels],
        )


def main():
    cugrt = sys.argv[1]
    problems = []

    def expect(what, said, right):
        if said != right:
            problems.append(f"{what}: {said!r}, not {right!r}")

    with tempfile.TemporaryDirectory() as folder:

        def path(name):
            return os.path.join(folder, name)

        for name, ids in (("ids.json", True), ("order.json", False)):
            with open(path(name), "w", encoding="utf-8") as file:
                json.dump(graphs(ids), file)

        # Two launches of the first graph; a kernel outside of graphs; one of a graph that is nobody's.
        def launches(graph):
            return [
                (graph << 32, "matmul_tiled", 0, 1000),
                (graph << 32 | 2, "softmax_rows", 1000, 1500),
                (None, "memory", 0, 9),
                (graph << 32, "matmul_tiled", 2000, 3500),
                (graph << 32 | 2, "softmax_rows", 3500, 4500),
                (99 << 32 | 4, "foreign", 0, 100),
            ]

        want = [
            ("matmul", "%h", 5, "main_region0", 2, 2.5),
            ("softmax_rows", "%s", 6, "main_region0", 2, 1.5),
            ("?", "?", 0, "?", 1, 0.1),
        ]
        for graph, map_name, by in ((7, "ids.json", "id"), (7, "order.json", "order"), (8, "ids.json", "order")):
            report = path(f"{graph}-{map_name}.sqlite")
            export(report, launches(graph))
            done = run(cugrt, "attribute", report, "--graphs", path(map_name), "--json")
            rows = json.loads(done.stdout)
            expect(
                f"rows by {by}",
                [(row["op"], row["binding"], row["line"], row["region"], row["launches"], row["us"]) for row in rows],
                want,
            )
            expect(f"joined by {by}", [row["by"] for row in rows], [by, by, ""])
            expect("what nobody has", "take 0.10 of 4.10 us" in done.stderr, True)
        table = run(cugrt, "attribute", report, "--graphs", path("ids.json")).stdout.splitlines()
        expect("a table", [line.split()[3] for line in table[1:]], ["matmul", "softmax_rows", "?"])
        # What is none.
        with open(path("text.sqlite"), "w", encoding="utf-8") as file:
            file.write("no database, however long the text is" * 30)
        sqlite3.connect(path("empty.sqlite")).execute("CREATE TABLE other (a INTEGER)").connection.commit()
        export(path("nothing.sqlite"), [(None, "memory", 0, 9)])
        for name, part in (
            ("text.sqlite", "not a database"),
            ("empty.sqlite", "is no export of Nsight Systems"),
            ("absent.sqlite", "is no file"),
            ("nothing.sqlite", "has no kernel of a graph"),
        ):
            said = run(cugrt, "attribute", path(name), "--graphs", path("ids.json"), status=1).stderr
            expect(name, part in said, True)
        said = run(cugrt, "attribute", report, "--graphs", path("text.sqlite"), status=1).stderr
        expect("a map that is none", "is no report of a session's graphs" in said, True)
    for problem in problems:
        print(problem)
    print(f"three exports and five that are none, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
