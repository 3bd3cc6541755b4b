"""Runs `phantora run` as a user does, and checks that it leaves nothing behind."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import uuid

TESTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
PROGRAMS = TESTS / "programs"
PHANTORA = os.environ.get("PHANTORA", str(ROOT / "build/release/bin/phantora"))
TORCH_PYTHON = os.environ.get("PHANTORA_PYTHON", str(ROOT / "build/venv/bin/python"))
PYTHON = sys.executable  # runs ranks that need no PyTorch

MARK = "PHANTORA_TEST_JOB"  # in the environment of every process of a job


def marked_processes(mark):
    """{pid: command line} of the living processes that descend from the job `mark`."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(") ")[2][0]
            if wanted in environment and state != "Z":
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = command.decode(errors="replace").strip()
        except (OSError, IndexError):
            continue  # it has ended meanwhile
    return found


class Job:
    """One `phantora run`. Give it to `with`, or call wait()."""

    def __init__(self, options, command, *, environment=None, stdin=None, directory=None,
                 prefix=()):
        self.mark = uuid.uuid4().hex
        self.directory = pathlib.Path(directory)
        self.stdout = open(self.directory / f"{self.mark}.out", "w+b")
        self.stderr = open(self.directory / f"{self.mark}.err", "w+b")
        self.temporary = self.directory / f"{self.mark}.tmp"
        self.temporary.mkdir()
        everything = dict(os.environ, **(environment or {}))
        everything.update({MARK: self.mark, "TMPDIR": str(self.temporary)})
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*prefix, PHANTORA, "run", *options, "--", *map(str, command)], env=everything,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, stdout=self.stdout,
            stderr=self.stderr, cwd=self.directory, start_new_session=True)
        if stdin is not None:
            self.process.stdin.write(stdin)
            self.process.stdin.close()

    def wait(self, timeout=240):
        """Waits for its end; kills it and raises if that takes more than `timeout` seconds."""
        try:
            self.status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the job did not end in {timeout} s\n{self.text()}") from None
        self.seconds = time.monotonic() - self.began
        return self

    def kill(self):
        for pid in [self.process.pid, *marked_processes(self.mark)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def close(self):
        self.kill()
        self.stdout.close()
        self.stderr.close()

    @staticmethod
    def _read(file):
        return pathlib.Path(file.name).read_text(errors="replace")

    @property
    def out(self):
        return self._read(self.stdout)

    @property
    def err(self):
        return self._read(self.stderr)

    def text(self):
        return f"--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def messages(self):
        """What Phantora itself says about a failure, one string per message."""
        found = []
        for line in self.err.splitlines():
            remark = "is not simulated" in line or "that are not computed" in line
            if line.startswith("phantora: ") and not remark:
                found.append(line)
            elif found and line.startswith("  "):
                found[-1] += "\n" + line
        # Said now and then on a busy machine, where a rank computes for long.
        return [message for message in found if "nothing has moved" not in message]

    def wait_for_output(self, text, timeout=120):
        deadline = time.monotonic() + timeout
        while text not in self.out:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"never printed {text!r}\n{self.text()}")
            time.sleep(0.02)

    def wait_for_error(self, text, timeout=120):
        deadline = time.monotonic() + timeout
        while text not in self.err:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"never said {text!r}\n{self.text()}")
            time.sleep(0.05)


class JobTest(unittest.TestCase):
    """Every job of a test must be gone, with all that it made, when it has ended."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="phantora-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def start(self, command, *, cluster="h200:1x2", options=(), **settings):
        if settings.pop("torch", False):
            command = [TORCH_PYTHON, *command]
            self.assertTrue(os.access(TORCH_PYTHON, os.X_OK),
                            f"{TORCH_PYTHON} is missing: test/run.sh makes it")
        job = Job(["--cluster", cluster, *options], command, directory=self.directory, **settings)
        self.addCleanup(job.close)
        return job

    def run_job(self, command, *, status=0, timeout=240, **settings):
        """Runs COMMAND to its end and expects `status` (None: anything but zero)."""
        job = self.start(command, **settings).wait(timeout)
        if status is None:
            self.assertNotEqual(job.status, 0, job.text())
        else:
            self.assertEqual(job.status, status, job.text())
        self.assert_nothing_left(job)
        return job

    def run_python(self, source, **settings):
        """The same for a Python program given as text, which may `import gpu`."""
        program = self.write("program.py", source)
        if not settings.get("torch", False):
            return self.run_job([PYTHON, program], **settings)
        return self.run_job([program], **settings)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(f"import sys\nsys.path.insert(0, {str(PROGRAMS)!r})\n" +
                        textwrap.dedent(text))
        return path

    def assert_nothing_left(self, job, patience=5):
        deadline = time.monotonic() + patience
        while (left := marked_processes(job.mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, {}, f"processes outlive the run\n{job.text()}")
        self.assertEqual([str(p) for p in job.temporary.rglob("*") if p.is_file()], [],
                         "temporary files outlive the run")
        # Named after the process that made them.
        owners = re.findall(r"@phantora-(\d+)-", pathlib.Path("/proc/net/unix").read_text())
        self.assertEqual([pid for pid in owners if not pathlib.Path(f"/proc/{pid}").exists()], [],
                         "a socket outlives its run")

    def assert_one_message(self, job, *parts):
        """One message of Phantora's own, which contains `parts`."""
        messages = job.messages()
        self.assertEqual(len(messages), 1, job.text())
        for part in parts:
            self.assertIn(part, messages[0])
        return messages[0]

    def report(self):
        return json.loads((self.directory / "report.json").read_text())


def printed(job):
    """The lines that the ranks printed, in an order that does not depend on who was first."""
    ours = job.out.rfind("\nphantora: ")
    return sorted(job.out[:ours].splitlines() if ours >= 0 else job.out.splitlines())


def main():
    unittest.main(module="__main__", argv=[sys.argv[0], "-v", *sys.argv[1:]])
