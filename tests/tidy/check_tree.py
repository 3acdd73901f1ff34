#!/usr/bin/env python3
"""Checks of the source tree itself: `check_tree.py [--root DIR] CHECK...`

includes  who may include what: layers point downwards, and each third-party library has its one place
format    clang-format would change nothing (exit status 77, "skipped", when it is not installed)
cases     every test and scenario that docs/cases.md names is in tests/
words     nothing in the tree names the machine it was written on or the tools it was written with
sizes     files stay below 1 MiB and 800 lines, functions below 70; the longest are shown, only far outliers fail

Each finding is one line, "FILE:LINE: what is wrong"; any finding gives exit status 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

SKIPPED_DIRS = re.compile(r"^(\.git|\.cache|build.*|__pycache__)$")
TEXT_SUFFIXES = (".h", ".cc", ".c", ".py", ".sh", ".md", ".txt", ".yaml", ".in", ".cmake", ".service", ".conf")

# Our directories, and the prefixes of our own headers that a file in them may include. The longest matching path wins.
# lnet/lnd.h and ulnet/ at the bottom of the stack are open to all; what they include keeps them there.
BOTTOM = ["lnet/base/", "ulnet/fault.h", "ulnet/result.h", "ulnet/status.h", "ulnet/types.h"]
WIRE = BOTTOM + ["lnet/wire/"]
DRIVER_SEAM = WIRE + ["lnet/lnd.h", "ulnet/settings.h", "ulnet/info.h"]
LAYERS = {
    "lnet/include/ulnet/": ["ulnet/"],
    "lnet/base/": BOTTOM,
    "lnet/wire/": WIRE,
    "lnet/lnd.h": WIRE + ["ulnet/settings.h", "ulnet/info.h"],
    "lnet/loop/": BOTTOM + ["lnet/engine/clock.h", "lnet/loop/"],
    "lnet/core/": DRIVER_SEAM + ["lnet/core/", "ulnet/"],
    "router/": DRIVER_SEAM + ["lnet/core/", "router/", "ulnet/"],
    "lnet/engine/": DRIVER_SEAM + ["lnet/core/", "lnet/engine/", "lnet/loop/", "ulnet/"],
    # The public API's start() connects the engine with its drivers: the one file where upper and lower layers meet.
    "lnet/engine/endpoint.cc": DRIVER_SEAM + ["lnet/core/", "lnet/engine/", "lnet/loop/", "ulnet/", "lnd_tcp/", "lnd_ib/"],
    "lnet/selftest/": ["lnet/base/", "ulnet/", "lnet/selftest/"],
    "lnd_tcp/": DRIVER_SEAM + ["lnet/loop/", "lnd_tcp/"],
    "lnd_ib/": DRIVER_SEAM + ["lnet/loop/", "lnd_ib/"],
    "config/": WIRE + ["ulnet/", "config/"],
    "daemon/": ["lnet/", "ulnet/", "config/", "lnd_tcp/", "lnd_ib/", "router/", "daemon/"],
    "examples/": ["ulnet/"],
    "tests/": ["lnet/", "ulnet/", "config/", "lnd_tcp/", "lnd_ib/", "router/", "daemon/", "tests/"],
}

# Third-party headers and the places that may include them; tests may include what they test with.
THIRD_PARTY = [
    (r"uv\.h$", ["lnet/loop/", "lnd_tcp/", "lnd_ib/", "daemon/"]),
    (r"hwloc\.h$", ["lnet/engine/topology.cc"]),
    (r"spdlog/", ["lnet/base/log.cc"]),
    (r"yaml-cpp/", ["config/"]),
    (r"nlohmann/", ["daemon/", "config/", "tests/"]),
    (r"CLI/", ["daemon/", "tests/", "lnet/selftest/"]),
    (r"(infiniband|rdma)/", ["lnd_ib/"]),
    (r"(gtest|gmock)/", ["tests/"]),
    (r"systemd/", ["daemon/"]),
]

# Split so that this file passes its own check.
FORBIDDEN_WORDS = re.compile(
    "|".join([
        r"/wo" r"rk/(shared|main|\.library)",
        r"/tm" r"p/(wt|brief)",
        r"\bcla" r"ude\b",
        r"\banth" r"ropic\b",
        r"\bchat" r"gpt\b",
        r"\bopen" r"ai\b",
        r"\bco" r"pilot\b",
        r"\bl" r"lms?\b",
        r"\bsub-?ag" r"ents?\b",
        r"\bai[- ](gene" r"rated|ass" r"istant)",
        r"\bartifa" r"ctory\b",
        r"\bnexus\.[a-z]+\.",
    ]),
    re.IGNORECASE)

FILE_BYTES_MAX = 1 << 20
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_FAIL = 100

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def tree_files(root):
    """Yields the paths of our files, relative to root, sorted."""
    for folder, dirs, names in os.walk(root):
        dirs[:] = sorted(d for d in dirs if not SKIPPED_DIRS.match(d))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def cxx_files(root):
    return [path for path in tree_files(root) if path.endswith((".h", ".cc"))]


def lines_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().splitlines()


def layer_of(path):
    matching = [prefix for prefix in LAYERS if path.startswith(prefix)]
    return max(matching, key=len) if matching else None


def is_ours(include):
    """True for a header of this tree, by its first folder."""
    return include.startswith("ulnet/") or any(include.startswith(layer.split("/")[0] + "/") for layer in LAYERS)


def check_include(path, include):
    """Returns what is wrong with this include, or None."""
    layer = layer_of(path)
    if layer is None:
        return f"is in no layer that tests/tidy/check_tree.py knows"
    if is_ours(include):
        if not any(include.startswith(allowed) for allowed in LAYERS[layer]):
            return f"{layer} may not include {include}"
        return None
    for pattern, places in THIRD_PARTY:
        if re.match(pattern, include) and not any(path.startswith(place) for place in places):
            return f"{include} is only for {', '.join(places)}"
    return None


def check_includes(root):
    findings = []
    for path in cxx_files(root):
        for number, line in enumerate(lines_of(root, path), 1):
            match = INCLUDE.match(line)
            wrong = match and check_include(path, match.group(1))
            if wrong:
                findings.append(f"{path}:{number}: {wrong}")
        if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines_of(root, path)):
            findings.append(f"{path}:1: a header without #pragma once")
    return findings


def check_format(root):
    clang_format = shutil.which("clang-format")
    if clang_format is None:
        print("SKIPPED: clang-format is not installed")
        sys.exit(77)
    paths = cxx_files(root)
    run = subprocess.run([clang_format, "--dry-run", "--ferror-limit=1", *paths], cwd=root, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    first_of_file = {}
    for line in run.stdout.splitlines():
        match = re.match(r"([^:]+):(\d+):\d+: (?:warning|error): code should be clang-formatted", line)
        if match:
            first_of_file.setdefault(match.group(1), f"{match.group(1)}:{match.group(2)}: not as clang-format writes it")
    if run.returncode != 0:
        return [f"clang-format failed: {run.stdout.strip()}"]
    return list(first_of_file.values())


def check_words(root):
    findings = []
    for path in tree_files(root):
        if not path.endswith(TEXT_SUFFIXES) and os.path.basename(path) not in ("dev", "run", "NOTICE"):
            continue
        for number, line in enumerate(lines_of(root, path), 1):
            match = FORBIDDEN_WORDS.search(line)
            if match:
                findings.append(f"{path}:{number}: '{match.group(0)}' has no place in this tree")
    return findings


NOT_A_FUNCTION = re.compile(r"(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|try|return)\b|[^(]*=")


def statement_start(lines, number):
    """The index of the first line of the statement that ends with line `number`."""
    while number > 0:
        above = lines[number - 1].split("//")[0].strip()
        if above == "" or above.endswith((";", "{", "}", "public:", "private:", "protected:")):
            break
        number -= 1
    return number


def functions_of(lines):
    """Yields (line number, first line, lines) of function bodies, as clang-format lays them out: a statement with
    parentheses that ends in `{`, up to the next `}` at its indent."""
    number = 0
    while number < len(lines):
        if lines[number].endswith("{"):
            start = statement_start(lines, number)
            head = " ".join(line.strip() for line in lines[start:number + 1])
            indent = lines[start][:len(lines[start]) - len(lines[start].lstrip())]
            if "(" in head and not NOT_A_FUNCTION.match(head):
                end = next((i for i in range(number, len(lines)) if re.match(indent + r"}", lines[i])), None)
                if end is not None:
                    yield start + 1, lines[start].strip(), end - start + 1
                    number = end
        number += 1


def check_sizes(root):
    findings = []
    for path in tree_files(root):
        size = os.path.getsize(os.path.join(root, path))
        if size > FILE_BYTES_MAX:
            findings.append(f"{path}:1: {size} bytes: a dump or a build product?")
    for path in cxx_files(root):
        lines = lines_of(root, path)
        if len(lines) > FILE_LINES_MAX:
            findings.append(f"{path}:1: {len(lines)} lines, think of splitting at {FILE_LINES_MAX}")
        for number, name, length in functions_of(lines):
            if length > FUNCTION_LINES_FAIL:
                findings.append(f"{path}:{number}: {length} lines in one function: {name}")
            elif length > FUNCTION_LINES_MAX:
                print(f"note: {path}:{number}: {length} lines in one function: {name}")
    return findings


CASES = "docs/cases.md"


def names_of_tests(root):
    """What docs/cases.md may call a test by: its file or its name in CTest; scenarios by their file."""
    names = set()
    for path in tree_files(root):
        if not path.startswith("tests/"):
            continue
        file_name = os.path.basename(path)
        stem = os.path.splitext(file_name)[0]
        names.update([file_name, stem])
        if path.startswith("tests/netns/"):
            names.add("netns_" + stem.removesuffix("_test"))
        if file_name == "CMakeLists.txt":
            names.update(re.findall(r"add_test\(NAME (\w+)", "\n".join(lines_of(root, path))))
    return names


def check_cases(root):
    """Looks at the last column of each table, and at first columns that are nothing but a name."""
    findings = []
    if not os.path.exists(os.path.join(root, CASES)):
        return [f"{CASES}:1: is missing"]
    known = names_of_tests(root)
    for number, line in enumerate(lines_of(root, CASES), 1):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        named = re.findall(r"`([a-z0-9_.-]+)`", cells[-1]) + re.findall(r"^`([a-z0-9_.-]+)`$", cells[0])
        findings += [f"{CASES}:{number}: there is no test {name}" for name in named if name not in known]
    return findings


def main():
    checks = {"cases": check_cases, "includes": check_includes, "format": check_format, "words": check_words, "sizes": check_sizes}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("checks", nargs="+", choices=sorted(checks), metavar="CHECK")
    args = parser.parse_args()
    findings = [finding for check in args.checks for finding in checks[check](os.path.normpath(args.root))]
    print("\n".join(findings) if findings else f"{', '.join(args.checks)}: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
