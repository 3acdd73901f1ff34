#!/usr/bin/env python3
"""Shows that each check of check_tree.py finds what it is there to find: small trees with one fault each."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECK_TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_tree.py")


def run_check(check, files):
    """Runs one check on a tree of {path: text}. Returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run([sys.executable, CHECK_TREE, "--root", root, check], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, check=False)
        return run.returncode, run.stdout


class CheckTree(unittest.TestCase):
    def expect_finding(self, check, path, text, finding):
        status, output = run_check(check, {path: text})
        self.assertEqual(status, 1, output)
        self.assertIn(finding, output)

    def expect_clean(self, check, path, text):
        status, output = run_check(check, {path: text})
        self.assertEqual(status, 0, output)

    def test_layers_point_downwards(self):
        self.expect_clean("includes", "lnet/core/md.cc", '#include "lnet/lnd.h"\n#include "lnet/wire/header.h"\n')
        for path, include in [
            ("lnet/core/md.cc", "lnet/engine/engine.h"),
            ("lnet/core/md.cc", "lnd_tcp/wire.h"),
            ("lnet/wire/nid.cc", "ulnet/endpoint.h"),
            ("lnet/wire/nid.cc", "lnet/lnd.h"),
            ("lnet/base/log.cc", "lnet/wire/nid.h"),
            ("lnd_tcp/wire.cc", "lnet/core/core.h"),
            ("config/loader.cc", "daemon/control.h"),
            ("daemon/ulnetd.cc", "tests/support/node.h"),
            ("examples/hello.cc", "lnet/base/log.h"),
            ("lnet/include/ulnet/types.h", "lnet/base/log.h"),
        ]:
            self.expect_finding("includes", path, f'#pragma once\n\n#include "{include}"\n', f"{path}:3: ")

    def test_third_party_headers_have_one_place(self):
        self.expect_clean("includes", "lnet/loop/loop.cc", "#include <uv.h>\n")
        for path, include in [("lnet/core/core.cc", "uv.h"), ("lnet/base/status.cc", "spdlog/spdlog.h"),
                              ("daemon/ulnetd.cc", "yaml-cpp/yaml.h"), ("lnd_tcp/wire.cc", "infiniband/verbs.h"),
                              ("lnet/base/log.cc", "gtest/gtest.h")]:
            self.expect_finding("includes", path, f"#include <{include}>\n", f"{path}:1: {include} is only for")

    def test_headers_are_guarded_and_belong_to_a_layer(self):
        self.expect_finding("includes", "lnet/base/new.h", "int a();\n", "without #pragma once")
        self.expect_finding("includes", "misc/new.cc", "#include <vector>\n", "is in no layer")

    def test_words(self):
        self.expect_clean("words", "README.md", "Lustre's network in user space\n")
        self.expect_finding("words", "README.md", "first\nsee /wo" "rk/shared/x\n", "README.md:2: ")
        self.expect_finding("words", "lnet/base/a.h", "// written by Cla" "ude\n", "lnet/base/a.h:1: ")

    def test_sizes(self):
        body = "  call();\n"
        self.expect_clean("sizes", "a.cc", "void f() {\n" + body * 60 + "}\n")
        self.expect_finding("sizes", "a.cc", "void f() {\n" + body * 120 + "}\n", "a.cc:1: 122 lines in one function")
        self.expect_finding("sizes", "a.cc", "// line\n" * 801, "a.cc:1: 801 lines")
        self.expect_finding("sizes", "core", "x" * (2 << 20), "core:1: 2097152 bytes")

    def test_cases(self):
        cases = "| case | right | test |\n|---|---|---|\n| X-1 | `not_a_test` is right | `net_test`, `netns_stop` |\n| `a-b` | x |\n"
        there = {"docs/cases.md": cases, "tests/unit/net_test.cc": "", "tests/netns/stop_test.py": "",
                 "tests/sim/scenarios/a-b.yaml": ""}
        for gone, name in [("tests/unit/net_test.cc", "net_test"), ("tests/netns/stop_test.py", "netns_stop"),
                           ("tests/sim/scenarios/a-b.yaml", "a-b"), (None, None)]:
            status, output = run_check("cases", {path: text for path, text in there.items() if path != gone})
            self.assertEqual(status, 1 if gone else 0, output)
            if gone:
                self.assertIn(f"there is no test {name}", output)

    def test_format(self):
        status, output = run_check("format", {"a.cc": "int  a ;\n", ".clang-format": "BasedOnStyle: Google\n"})
        if status == 77:
            self.skipTest(output)
        self.assertEqual(status, 1, output)
        self.assertIn("a.cc:1: not as clang-format writes it", output)


if __name__ == "__main__":
    unittest.main()
