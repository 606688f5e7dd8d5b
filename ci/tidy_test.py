#!/usr/bin/env python3
"""Shows that tidy.py can fail: one planted violation per rule, and none on a clean tree."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy  # noqa: E402


class Tidy(unittest.TestCase):
    def found(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            target = pathlib.Path(root) / path
            target.parent.mkdir(parents=True)
            target.write_text(text)
            return list(tidy.problems(root))

    def check(self, path, text, words):
        found = self.found(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_clean(self):
        self.assertEqual(self.found("src/mesh/a.cpp", '// a\n#include "comm/communicator.h"\n'), [])
        self.assertEqual(self.found("harness/cli/a.cpp", "// a\nauto x = getenv(name);\n"), [])

    def test_include_table(self):
        self.check("src/base/a.cpp", '// a\n#include "comm/communicator.h"\n', "base may include")
        self.check("src/model/a.cpp", '// a\n#include "comm/canonical.h"\n', "model may include")
        self.check("src/train/a.cpp", '// a\n#include "harness/world.h"\n', "train may include")
        self.check("src/checkpoint/a.cpp", '// a\n#include "comm/canonical.h"\n', "checkpoint may")
        self.check("invariants/a.cpp", '// a\n#include "harness/world.h"\n', "invariants may")

    def test_torch_free(self):
        self.check("src/comm/a.cpp", "// a\n#include <ATen/ATen.h>\n", "torch-free")
        self.check("src/data/a.cpp", "// a\n#include <mpi.h>\n", "MPI-free")
        self.assertEqual(self.found("src/comm/mpi_a.cpp", "// a\n#include <mpi.h>\n"), [])

    def test_trainer(self):
        self.check("src/train/trainer.cpp", '// a\n#include "comm/canonical.h"\n', "no collective")

    def test_environment(self):
        self.check("src/train/a.cpp", "// a\nauto x = getenv(name);\n", "environment")

    def test_text(self):
        self.check("src/base/a.cpp", "int x;\n", "starts with a comment")
        self.check("src/base/a.h", "// a\n", "#pragma once")
        self.check("src/base/a.cpp", "// a\n//" + "x" * 99 + "\n", "columns")
        self.check("src/base/a.cpp", "// a\n" * 401, "more than 400 lines")
        self.check("src/base/a.cpp", "// a TO" + "DO\n", "unfinished")
        self.check("src/base/a_test.cpp", "// a\nusleep(3);\n", "does not sleep")


if __name__ == "__main__":
    unittest.main()
