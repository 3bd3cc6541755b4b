"""`phantora convert`: profiles and execution traces of others, workloads, and the errors."""
import gzip
import json
import pathlib
import subprocess

from job import PHANTORA, JobTest, main

PROFILE = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpt2_b8_profile.json.gz"


class Convert(JobTest):
    def convert(self, *paths, status=0):
        run = subprocess.run([PHANTORA, "convert", *map(str, paths)], capture_output=True, text=True,
                             timeout=60, cwd=self.directory)
        self.assertEqual(run.returncode, status, run.stderr)
        return (run.stdout if status == 0 else run.stderr).splitlines()

    def profile(self):
        (self.directory / "profile.json").write_bytes(gzip.decompress(PROFILE.read_bytes()))

    def test_a_profile_becomes_a_workload_and_a_trace(self):
        self.profile()
        self.assertEqual(self.convert("profile.json", "job.json")[-1],
                         "job.json: 1 ranks, 4706 operations, 131.495 ms as recorded")
        workload = json.loads((self.directory / "job.json").read_text())
        self.assertEqual(workload["phantora_workload"], 1)
        self.convert("job.json", "job.et")
        self.assertEqual(sorted(path.name for path in self.directory.glob("job.*")),
                         ["job.0.et", "job.json"])
        self.assertEqual(self.convert("job.et", "again.rec"),
                         ["again.rec: 1 ranks, 4706 operations"])

    def test_what_cannot_be_read_is_told(self):
        self.assertIn("no.json: expected a profile, a trace or a workload, cannot be read",
                      self.convert("no.json", "out.json", status=2)[0])
        self.assertIn("no.0.et: expected an execution trace", self.convert("no.et", "x", status=2)[0])
        self.assertIn("expected an unpacked file, this is gzip's",
                      self.convert(PROFILE, "out.json", status=2)[0])
        (self.directory / "w.json").write_text('{"phantora_workload": 1}')
        self.assertIn("w.json: expected PyTorch's profiles where there are several files",
                      self.convert("w.json", "w.json", "out.json", status=2)[0])


if __name__ == "__main__":
    main()
