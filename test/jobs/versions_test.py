"""Every torch that users have runs from the same build: each in an environment of its own."""
import os
import subprocess
import unittest

import job
from job import JobTest, main
from profiler_test import SameOperations

# The newest is what all other tests run.
VERSIONS = ["2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1"]


class Version(SameOperations):
    version = None

    @classmethod
    def setUpClass(cls):
        setup = f". {job.ROOT / 'examples/setup.sh'} && make_version_venv {cls.version}"
        subprocess.run(["bash", "-c", setup], check=True, stdin=subprocess.DEVNULL)
        cls.python = job.ROOT / f"build/venv-{cls.version}/bin/python"

    def counters(self, job):
        return {line.split()[0] for line in job.out.splitlines() if line.startswith("  ")}

    def test_kernels(self):
        ended = self.run_job([self.python, job.PROGRAMS / "small_kernels.py"], cluster="h200:1x1",
                             options=["--host-time", "off"], timeout=900)
        self.assertIn("results compared, 0 differ", ended.out)
        self.assertEqual(self.counters(ended) & {"unread_kernels"}, set(), ended.text())

    def test_training(self):
        ended = self.run_job([self.python, job.ROOT / "examples/pytorch/train_gpt.py"],
                             options=["--host-time", "off"], timeout=900)
        self.assertEqual(self.counters(ended) & {"unread_kernels", "unknown_reads", "unsupported"},
                         set(), ended.text())
        self.assertIn("step 9:", ended.out)


for version in VERSIONS:
    name = "Torch" + version.replace(".", "_")
    globals()[name] = type(name, (Version, JobTest), {"version": version})


if __name__ == "__main__":
    main()
