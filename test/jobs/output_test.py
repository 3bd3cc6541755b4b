"""What ranks print reaches the user whole, in order, and to the end."""
import os
import pty
import select
import signal
import subprocess
import time

from job import PHANTORA, PYTHON, JobTest, main


class Lines(JobTest):
    def test_lines_of_ranks_do_not_mix(self):
        """A print of an unbuffered Python is several writes."""
        job = self.run_job([PYTHON, "-u", self.write("program.py", """
            import os
            for i in range(3000):
                print("rank", os.environ["RANK"], "says", i, "of", "three", "thousand")
            """)], cluster="h200:1x4", timeout=120)
        lines = job.out[:job.out.rindex("\nphantora: ")].splitlines()
        for rank in range(4):
            self.assertEqual([line for line in lines if line.startswith(f"rank {rank} ")],
                             [f"rank {rank} says {i} of three thousand" for i in range(3000)])
        self.assertEqual(len(lines), 12000)

    def test_output_and_error_stay_apart(self):
        job = self.run_python("""
            import sys
            print("to the output")
            print("to the error", file=sys.stderr)
            """, cluster="h200:1x1")
        self.assertIn("to the output\n", job.out)
        self.assertEqual(job.err, "to the error\n")

    def test_output_and_error_of_one_file_keep_their_order(self):
        program = self.write("program.py", """
            import sys
            for i in range(500):
                print(i, file=sys.stderr if i % 3 else sys.stdout, flush=True)
            """)
        job = subprocess.run([PHANTORA, "run", "--cluster", "h200:1x1", "--", PYTHON, program],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual(job.stdout.decode().splitlines()[:500], [str(i) for i in range(500)])

    def test_a_hundred_megabytes(self):
        job = self.run_python("""
            import os, sys
            for i in range(1000):
                sys.stdout.write((f"{i % 10}" * 99 + "\\n") * 1000)
            """, cluster="h200:1x1", timeout=120)
        text = job.out[:job.out.rindex("\nphantora: ")]
        self.assertEqual(len(text), 100_000_000)
        self.assertEqual(text[-100:], "9" * 99 + "\n")

    def test_a_killed_rank_loses_nothing_that_it_wrote(self):
        job = self.run_python("""
            import os, signal, sys
            os.write(1, b"x" * 60000 + b"the end, without a line's end")
            os.kill(os.getpid(), signal.SIGKILL)
            """, cluster="h200:1x1", status=137)
        self.assertIn("x" * 60000 + "the end, without a line's end\n", job.out)
        message = self.assert_one_message(job, "rank 0 was killed by signal 9")
        self.assertNotIn("memory", message)

    def test_a_line_of_any_length(self):
        job = self.run_python("print('Y' * 5_000_000)", cluster="h200:1x1")
        self.assertIn("Y" * 5_000_000 + "\n", job.out)

    def test_the_end_does_not_wait_for_who_holds_the_pipe(self):
        job = self.run_python("""
            import subprocess
            subprocess.Popen(["sleep", "300"], start_new_session=True)
            print("done")
            """, cluster="h200:1x1", timeout=60)
        self.assertIn("done\n", job.out)

    def test_more_ranks_than_a_process_may_have_descriptors(self):
        job = self.run_job(["sh", "-c", "ulimit -n"], cluster="h200:5x8",
                           prefix=["sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh"])
        self.assertEqual(job.out.splitlines()[:40], ["64"] * 40)

    def test_labels(self):
        job = self.run_python("""
            import os, sys
            print("one\\ntwo")
            sys.stderr.write("three\\n")
            """, cluster="h200:1x2", options=["--label-output"])
        lines = job.out[:job.out.rindex("\nphantora: ")].splitlines()
        self.assertEqual(sorted(lines), ["[rank 0] one", "[rank 0] two",
                                         "[rank 1] one", "[rank 1] two"])
        self.assertEqual(sorted(job.err.splitlines()), ["[rank 0] three", "[rank 1] three"])


class Readers(JobTest):
    """Who reads what the run prints: a terminal, nobody yet, nobody any more."""

    def popen(self, source, *arguments, **settings):
        program = self.write("program.py", source)
        process = subprocess.Popen(
            [PHANTORA, "run", "--cluster", "h200:1x1", "--", PYTHON, program, *arguments],
            stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.directory, **settings)
        self.addCleanup(process.__exit__, None, None, None)  # waits, closes
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def read_until(self, descriptor, text, seen="", timeout=60):
        deadline = time.monotonic() + timeout
        while text not in seen:
            self.assertGreater(deadline, time.monotonic(), f"no {text!r} in {seen!r}")
            if select.select([descriptor], [], [], 1)[0]:
                try:
                    seen += os.read(descriptor, 65536).decode()
                except OSError:  # the terminal's end
                    self.fail(f"no {text!r} in {seen!r}")
        return seen

    def test_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.popen("""
            import os, sys, time
            print(sys.stdout.isatty(), sys.stderr.isatty())  # shown at its end: a terminal's line
            sys.stdout.write("an open line")
            sys.stdout.flush()
            while not os.path.exists("go"):
                time.sleep(0.01)
            print(" ends")
            """, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = self.read_until(ours, "an open line")
        self.assertIn("True True\r\n", seen)
        (self.directory / "go").touch()
        seen = self.read_until(ours, "simulation took", seen)
        self.assertIn("an open line ends\r\n", seen)
        self.assertEqual(process.wait(20), 0)
        os.close(ours)

    def test_progress_on_a_terminal_and_nowhere_else(self):
        for stream, shown in (("stderr", True), ("stdout", False)):
            ours, theirs = pty.openpty()
            pipe = {"stderr": {"stdout": subprocess.PIPE}, "stdout": {"stderr": subprocess.PIPE}}
            (self.directory / "go").unlink(missing_ok=True)
            process = self.popen("""
                import os, sys, time
                getattr(sys, sys.argv[1]).write("begins\\n")
                getattr(sys, sys.argv[1]).flush()
                while not os.path.exists("go"):
                    time.sleep(0.01)
                getattr(sys, sys.argv[1]).write("goes on\\n")
                """, stream, **{stream: theirs}, **pipe[stream])
            os.close(theirs)
            seen = self.read_until(ours, "begins")
            if shown:
                seen = self.read_until(ours, "1 process left", seen)
            else:
                time.sleep(2)
            (self.directory / "go").touch()
            seen = self.read_until(ours, "goes on\r\n", seen)
            # The line makes room for what a rank prints.
            self.assertEqual("\x1b[Kgoes on" in seen, shown, repr(seen))
            self.assertEqual("simulated in" in seen, shown)
            other = process.communicate(timeout=20)[0 if shown else 1].decode()
            self.assertNotIn("simulated in", other)
            os.close(ours)

    def test_a_file_is_no_terminal(self):
        job = self.run_python("import sys; print(sys.stdout.isatty(), sys.stderr.isatty())",
                              cluster="h200:1x1")
        self.assertIn("False False\n", job.out)
        self.assertEqual(job.err, "")

    def test_a_reader_that_has_gone(self):
        process = self.popen("""
            while True:
                print("again and again")
            """, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"again and again\n")
        process.stdout.close()
        self.assertIn(b"BrokenPipeError", process.stderr.read())
        self.assertEqual(process.wait(20), 1)

    def test_a_reader_that_does_not_read_is_told_of(self):
        process = self.popen("""
            print("a line\\n" * 100000)
            """, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = self.read_until(process.stderr.fileno(), "nobody has read")
        self.assertEqual(said.count("nobody has read"), 1)
        text = process.stdout.read().decode()
        self.assertEqual(text.count("a line\n"), 100000)
        self.assertEqual(process.wait(20), 0)


if __name__ == "__main__":
    main()
