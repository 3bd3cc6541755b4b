"""Programs with a CUDA runtime linked into them, nvcc's default, call the stand-in for it."""
import os
import pathlib

from job import JobTest, main, printed

WORK = pathlib.Path(os.environ.get("PHANTORA_STATIC_RUNTIME", "."))
# The version that an initializer has heard, and what allocating and freeing did.
OURS = "{}: cudaMalloc 0 memory, cudaFree 0"
ITS_OWN = "4: cudaMalloc 4711 nothing, cudaFree 4711"


class StaticRuntime(JobTest):
    def check(self, program, said):
        self.assertEqual(printed(self.run_job(program, cluster="h200:1x1")), [said])

    def test_program(self):
        for version in (12, 13):
            self.check([WORK / f"phantora_test_static_{version}_program"], OURS.format(version))

    def test_library_of_a_program(self):
        for version in (12, 13):
            self.check([WORK / f"phantora_test_static_{version}_user"], OURS.format(version))

    def test_library_that_is_opened(self):
        for version in (12, 13):
            job = self.run_python(f"""
                import ctypes
                ctypes.CDLL({str(WORK / f"libphantora_test_static_{version}.so")!r}).call_static_runtime(1)
                """, cluster="h200:1x1")
            self.assertEqual(printed(job), [OURS.format(version)])

    def test_one_library_after_another_was_closed(self):
        libraries = [str(WORK / f"libphantora_test_static_{version}.so") for version in (12, 13)]
        job = self.run_python(f"""
            import _ctypes, ctypes
            for path in {libraries!r}:
                library = ctypes.CDLL(path)
                library.call_static_runtime(1)
                _ctypes.dlclose(library._handle)
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), [OURS.format(12), OURS.format(13)])

    def test_a_release_of_other_types_is_left_alone(self):
        self.check([WORK / "phantora_test_static_11_program"], ITS_OWN)

    def test_stripped_program(self):
        self.check([WORK / "phantora_test_static_stripped_program"], OURS.format(13))

    def test_stripped_library(self):
        self.check([WORK / "phantora_test_static_stripped_user"], OURS.format(13))

    def test_with_neither_names_nor_their_number_nothing_is_found(self):
        self.check([WORK / "phantora_test_static_few_program"], ITS_OWN)


if __name__ == "__main__":
    main()
