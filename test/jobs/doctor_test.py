"""What `phantora doctor` finds, on machines and of programs that lack something."""
import json
import os
import pathlib
import shutil
import subprocess

from job import PHANTORA, PYTHON, TORCH_PYTHON, JobTest, main

HOOKS = pathlib.Path(PHANTORA).resolve().parent.parent / "lib" / "phantora"
PLAIN = {"CUDA_VISIBLE_DEVICES": None, "LD_PRELOAD": None, "OMP_NUM_THREADS": None}


class DoctorTest(JobTest):
    def doctor(self, *arguments, phantora=PHANTORA, environment=None, prefix=(), status=None):
        """{what: finding} and the exit status; several findings of one kind become a list."""
        variables = {**os.environ, **PLAIN, **(environment or {})}
        variables = {name: value for name, value in variables.items() if value is not None}
        done = subprocess.run([*prefix, phantora, "doctor", "--format", "json", *map(str, arguments)],
                              cwd=self.directory, capture_output=True, text=True, timeout=120, env=variables)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(told["works"], done.returncode == 0)
        self.assertEqual(told["works"], all(it["status"] != "missing" for it in told["findings"]))
        for it in told["findings"]:
            self.assertEqual(it["remedy"] is None, it["status"] == "ok", it)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return {it["what"]: it for it in told["findings"]}

    def assert_missing(self, findings, what, *parts):
        self.assertEqual(findings[what]["status"], "missing", findings[what])
        for part in parts:
            self.assertIn(part, findings[what]["found"])

    def compile(self, *options, name="program", source="int main(void) { return 0; }\n"):
        """A program of C; skips the test where the compiler cannot make such a one."""
        (self.directory / "program.c").write_text(source)
        made = subprocess.run(["cc", "program.c", "-o", name, *options], cwd=self.directory,
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"cc {' '.join(options)}: {made.stderr}")
        return self.directory / name


class Doctor(DoctorTest):
    def test_a_program_that_runs_here(self):
        findings = self.doctor("--", "true", status=0)
        for what in ("stand-ins", "threads", "shared memory", "addresses", "program", "libraries"):
            self.assertEqual(findings[what]["status"], "ok", findings[what])
        self.assertNotIn("PyTorch", findings)
        self.run_job(["true"])  # and it does

    def test_the_table_says_the_same(self):
        done = subprocess.run([PHANTORA, "doctor", "--", "no-such-program"], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^ok       stand-ins             \d+ libraries in ")
        self.assertIn("missing  program               cannot run no-such-program: there is no such program in PATH", lines)
        self.assertEqual(lines[lines.index("missing  program               cannot run no-such-program: "
                                           "there is no such program in PATH") + 1],
                         "                               -> name a program that can be run")
        self.assertEqual(lines[-1], "phantora: a run would fail here, for want of what is missing")

    def test_an_environment_without_python(self):
        findings = self.doctor(environment={"PATH": str(self.directory)}, status=1)
        self.assert_missing(findings, "Python", "no python or python3 in PATH")

    def test_a_python_without_pytorch(self):
        findings = self.doctor("--", PYTHON, "-S", "train.py")
        self.assertEqual(findings["Python"]["status"], "ok")
        self.assertIn("PyTorch", findings)  # what it says hangs on the machine
        (self.directory / "python3").write_text(f"#!/bin/sh\nexec {PYTHON} -S -I \"$@\"\n")
        (self.directory / "python3").chmod(0o755)
        findings = self.doctor("--", self.directory / "python3", status=1)
        self.assert_missing(findings, "PyTorch", "not installed")
        self.assertIn("stock wheel", findings["PyTorch"]["remedy"])

    def test_a_python_that_is_broken(self):
        (self.directory / "python3").write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
        (self.directory / "python3").chmod(0o755)
        findings = self.doctor("--", self.directory / "python3", status=1)
        self.assert_missing(findings, "Python", "python3 fails: no such luck")

    def torch_that_says(self, version, cuda):
        package = self.directory / "packages" / "torch"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(
            f"class version:\n    cuda, hip = {cuda!r}, None\n__version__ = {version!r}\n")
        return self.doctor("--", PYTHON, environment={"PYTHONPATH": str(package.parent)})

    def test_versions_of_pytorch(self):
        self.assertEqual(self.torch_that_says("2.15.0+cu132", "13.2")["PyTorch"]["status"], "ok")
        old = self.torch_that_says("2.9.1", "12.8")["PyTorch"]
        self.assertEqual(old["status"], "warning")
        self.assertIn("2.9.1 for CUDA 12.8: tested are 2.10 to 2.15", old["found"])
        self.assert_missing(self.torch_that_says("2.14.0+cpu", None), "PyTorch", "is not for CUDA")

    def test_a_pytorch_that_cannot_be_imported(self):
        package = self.directory / "packages" / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('libodd.so.3: cannot open')\n")
        information = package.parent / "torch-2.15.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Name: torch\nVersion: 2.15.0\n")
        findings = self.doctor("--", PYTHON, environment={"PYTHONPATH": str(package.parent)}, status=1)
        self.assert_missing(findings, "PyTorch", "2.15.0 cannot be imported: libodd.so.3: cannot open")

    def test_compilers_are_for_torch_compile(self):
        (self.directory / "bin").mkdir()
        (self.directory / "packages" / "torch").mkdir(parents=True)
        (self.directory / "packages" / "torch" / "__init__.py").write_text(
            "class version:\n    cuda, hip = '13.2', None\n__version__ = '2.15.0'\n")
        findings = self.doctor("--", PYTHON, environment={"PYTHONPATH": str(self.directory / "packages"),
                                                          "PATH": str(self.directory / "bin")})
        self.assertEqual(findings["torch.compile"]["status"], "warning")
        self.assertIn("a C++ compiler (g++)", findings["torch.compile"]["found"])

    def test_a_static_program(self):
        program = self.compile("-static")
        self.assert_missing(self.doctor("--", program, status=1), "program", "is statically linked")

    def test_a_program_of_another_c_library(self):
        program = self.compile()
        image = program.read_bytes()
        loader = b"/lib64/ld-linux-x86-64.so.2"
        self.assertIn(loader, image)
        program.write_bytes(image.replace(loader, b"/lib/ld-musl-x86_64.so.1".ljust(len(loader), b"\0")))
        self.assert_missing(self.doctor("--", program, status=1), "program", "is linked to musl")

    def test_a_program_that_lacks_a_library(self):
        self.compile("-shared", "-fPIC", "-Wl,-soname,libodd.so.3", name="libodd.so")
        program = self.compile("-Wl,--no-as-needed", "-L.", "-lodd")
        self.assert_missing(self.doctor("--", program, status=1), "libraries", "libodd.so.3")
        shutil.copy(self.directory / "libodd.so", self.directory / "libodd.so.3")
        found = self.doctor("--", program, environment={"LD_LIBRARY_PATH": str(self.directory)}, status=0)
        self.assertEqual(found["libraries"]["status"], "ok")

    def test_libraries_that_stand_ins_answer_for(self):
        program = self.compile("-Wl,--no-as-needed", str(HOOKS / "libcudart.so.13"), str(HOOKS / "libnccl.so.2"),
                               f"-Wl,-rpath-link,{HOOKS}", "-Wl,--allow-shlib-undefined")
        findings = self.doctor("--", program, status=0)
        self.assertIn("stand-ins answer for libcudart.so.13, libnccl.so.2", findings["libraries"]["found"])

    def test_what_is_no_program(self):
        text = self.directory / "text"
        text.write_text("just text\n")
        self.assert_missing(self.doctor("--", text, status=1), "program", "it is not executable")
        text.chmod(0o755)
        self.assert_missing(self.doctor("--", text, status=1), "program", "neither an ELF program nor a script")
        program = self.compile()
        image = bytearray(program.read_bytes())
        image[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
        program.write_bytes(image)
        self.assert_missing(self.doctor("--", program, status=1), "program", "is not for x86-64")

    def test_a_script_is_run_by_its_interpreter(self):
        script = self.directory / "train"
        script.write_text("#!/usr/bin/env -S sh -e\n")
        script.chmod(0o755)
        self.assertIn("train runs /", self.doctor("--", script, status=0)["program"]["found"])
        script.write_text("#!/no/such/interpreter\n")
        self.assert_missing(self.doctor("--", script, status=1), "program", "/no/such/interpreter")

    def test_a_program_that_gives_rights(self):
        if os.geteuid() != 0:
            self.skipTest("only root makes a program of another user's")
        program = self.compile()
        os.chown(program, 1, 1)
        program.chmod(0o4755)
        self.assert_missing(self.doctor("--", program, status=1), "program", "preloads nothing into it")

    def test_variables_that_matter(self):
        self.assertNotIn("NCCL", self.doctor("--", "true"))
        findings = self.doctor("--", "true", status=0, environment={
            "NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "8", "LD_PRELOAD": "libm.so.6"})
        self.assertIn("NCCL_ALGO=Ring", findings["NCCL"]["found"])
        for what in ("NCCL", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "LD_PRELOAD"):
            self.assertEqual(findings[what]["status"], "warning")
        for hidden in ("", "-1"):
            self.assert_missing(self.doctor("--", "true", environment={"CUDA_VISIBLE_DEVICES": hidden}, status=1),
                                "CUDA_VISIBLE_DEVICES", "ranks see no GPU")

    def test_limits(self):
        def under(limit):
            return self.doctor("--", "true", prefix=["sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh"])
        self.assert_missing(under("-v 50000000"), "addresses", "cannot be reserved")
        few = under("-n 200")["open files"]
        self.assertEqual(few["status"], "warning")
        self.assertIn("up to 200, enough for some 34 ranks", few["found"])

    def installed(self):
        """A copy of what is installed, that may be broken."""
        (self.directory / "tree" / "bin").mkdir(parents=True)
        shutil.copy(PHANTORA, self.directory / "tree" / "bin" / "phantora")
        hooks = self.directory / "tree" / "lib" / "phantora"
        hooks.mkdir(parents=True)
        for file in HOOKS.rglob("*.so*"):
            (hooks / file.relative_to(HOOKS)).parent.mkdir(exist_ok=True)
            (hooks / file.relative_to(HOOKS)).symlink_to(file)
        return self.directory / "tree" / "bin" / "phantora", hooks

    def test_stand_ins_that_are_not_there_or_broken(self):
        phantora, hooks = self.installed()
        (hooks / "libcublas.so.13").unlink()
        (hooks / "when_asked" / "libcudnn_ops.so.9").unlink()
        findings = self.doctor("--", "true", phantora=phantora, status=1)
        self.assert_missing(findings, "stand-ins", "libcublas.so.13", "when_asked/libcudnn_ops.so.9")
        (hooks / "libcublas.so.13").write_text("no library\n")
        (hooks / "when_asked" / "libcudnn_ops.so.9").symlink_to(HOOKS / "when_asked" / "libcudnn_ops.so.9")
        findings = self.doctor("--", "true", phantora=phantora, status=1)
        self.assert_missing(findings, "stand-ins", "libcublas.so.13: ")
        (hooks / "libphantora_libc.so").unlink()
        findings = self.doctor("--", "true", phantora=phantora, status=1)
        self.assert_missing(findings, "stand-ins", "the hooks are missing: expected them in ")


class DoctorTorch(DoctorTest):
    def test_the_environment_of_the_tests(self):
        for program in (TORCH_PYTHON, pathlib.Path(TORCH_PYTHON).parent / "torchrun"):
            findings = self.doctor("--", program, "train.py", status=0)
            self.assertEqual(findings["PyTorch"]["status"], "ok", findings["PyTorch"])
            self.assertIn("for CUDA", findings["PyTorch"]["found"])
            self.assertIn("torch.compile", findings)


if __name__ == "__main__":
    main()
