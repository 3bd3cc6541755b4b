"""Names of NVIDIA's libraries that we have never heard of do not stop a program."""
import os
import pathlib
import unittest

from job import JobTest, main, printed

INVENTED = pathlib.Path(os.environ.get("PHANTORA_INVENTED", "."))

CALL = """
    import ctypes, sys
    library = ctypes.CDLL({path!r})
    library.call_text.restype = ctypes.c_char_p
    # 801 is cudaErrorNotSupported, 5 ncclInvalidUsage.
    for _ in range(2):
        print(library.call_versioned(), library.call_unversioned(), library.call_text().decode())
    """
ANSWERS = "801 5 not supported by Phantora"


class UnknownNames(JobTest):
    def check(self, job, lines):
        self.assertEqual(printed(job), [ANSWERS] * lines)
        for name in ("cudaInventedCall", "ncclInventedCall", "ncclInventedGetErrorString"):
            said = [line for line in job.err.splitlines() if f" {name} is not simulated" in line]
            self.assertEqual(len(said), 1, job.text())

    def call(self, library, **settings):
        return self.run_python(CALL.format(path=str(INVENTED / library)), cluster="h200:1x1", **settings)

    def test_bound_when_loaded(self):
        self.check(self.call("libphantora_test_invented_now.so"), 2)

    def test_bound_when_called(self):
        self.check(self.call("libphantora_test_invented_lazy.so"), 2)

    def test_needed_by_what_is_loaded(self):
        self.check(self.call("outer/libphantora_test_invented_outer.so"), 2)

    def test_one_library_after_the_other(self):
        job = self.run_python(
            CALL.format(path=str(INVENTED / "libphantora_test_invented_now.so")) +
            CALL.format(path=str(INVENTED / "libphantora_test_invented_lazy.so")), cluster="h200:1x1")
        self.check(job, 4)

    def test_native_program(self):
        self.check(self.run_job([INVENTED / "phantora_test_invented_main"], cluster="h200:1x1"), 1)

    def test_names_of_others_are_not_answered(self):
        job = self.run_python("""
            import ctypes
            for name in ("cudaInventedCall", "ncclInventedCall"):
                try:
                    print(getattr(ctypes.CDLL(None), name))
                except AttributeError:
                    print("no", name)
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), ["no cudaInventedCall", "no ncclInventedCall"])


class DriverLog(JobTest):
    def test_callbacks_can_be_registered(self):
        job = self.run_python("""
            import ctypes
            cuda = ctypes.CDLL("libcuda.so.1")
            callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)(lambda *_: None)
            handle, size = ctypes.c_void_p(), ctypes.c_size_t(64)
            text = ctypes.create_string_buffer(b"before", 64)
            print(cuda.cuLogsRegisterCallback(callback, None, ctypes.byref(handle)), handle.value is not None,
                  cuda.cuLogsDumpToMemory(None, text, ctypes.byref(size), 0), size.value, text.value,
                  cuda.cuLogsUnregisterCallback(handle), cuda.cuLogsUnregisterCallback(handle),
                  cuda.cuLogsRegisterCallback(None, None, ctypes.byref(handle)))
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), ["0 True 0 0 b'' 0 1 1"])


if __name__ == "__main__":
    main()
