#!/usr/bin/env python3
"""Writes the page of a plan as a C++ array, cugrt::runtime::kPlanPage: embed_page.py OUTPUT PAGE SCRIPT

The script stands in the page where it says @SCRIPT@.
"""
import sys

output, page, script = sys.argv[1:]
with open(page, encoding="utf-8") as file:
    text = file.read()
with open(script, encoding="utf-8") as file:
    data = text.replace("@SCRIPT@", file.read()).encode()
lines = [",".join(str(byte) for byte in data[i:i + 32]) for i in range(0, len(data), 32)]
with open(output, "w", encoding="ascii") as file:
    file.write('#include "library/report/plan_report.h"\n\nnamespace cugrt::runtime {\n\n'
               "static const unsigned char kBytes[] = {\n" + ",\n".join(lines) + "};\n"
               "const std::string_view kPlanPage(reinterpret_cast<const char *>(kBytes), sizeof kBytes);\n\n"
               "} // namespace cugrt::runtime\n")
