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

    def test_what_was_loaded_for_its_opener_alone_answers_itself(self):
        # As PyTorch preloads NVIDIA's NVRTC: its functions are in no scope that all libraries share.
        job = self.run_python(f"""
            import ctypes
            ctypes.CDLL({str(INVENTED / "link/libnvrtc.so.13")!r}, mode=ctypes.RTLD_LOCAL)
            print(ctypes.CDLL({str(INVENTED / "libphantora_test_invented_nvrtc.so")!r}).call_nvrtc(7))
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), ["7"])

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


class Releases(JobTest):
    """Libraries of CUDA 12 and of CUDA 13 are preloaded; a program sees those of its own release."""

    def test_the_other_release_is_not_there(self):
        code = """
            import ctypes
            {first}
            for name in ("libcudart.so.13", "libcudart.so.12", "libcublas.so.12", "libnccl.so.2"):
                try:
                    print(name, ctypes.CDLL(name) is not None)
                except OSError as error:
                    print(name, str(error).endswith("No such file or directory"), "not there")
            """
        linked = f"ctypes.CDLL({str(INVENTED / 'libphantora_test_invented_now.so')!r})"  # with libcudart.so.13
        job = self.run_python(code.format(first=linked), cluster="h200:1x1")
        self.assertEqual(printed(job), ["libcublas.so.12 True", "libcudart.so.12 True not there", "libcudart.so.13 True", "libnccl.so.2 True"])
        job = self.run_python(code.format(first=""), cluster="h200:1x1")
        self.assertEqual(printed(job), [f"{name} True" for name in ("libcublas.so.12", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")])

    def test_structures_are_as_long_as_the_release_has_them(self):
        # CUDA 13 gave cudaPointerAttributes reserved fields: 88 bytes where a program of CUDA 12 has 24.
        job = self.run_python("""
            import ctypes
            for name, size in (("libcudart.so.12", 24), ("libcudart.so.13", 88)):
                runtime = ctypes.CDLL(name)
                memory, told = ctypes.c_void_p(), (ctypes.c_ubyte * 128)(*[0xEE] * 128)
                assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
                assert runtime.cudaPointerGetAttributes(ctypes.byref(told), memory) == 0
                print(name, ctypes.c_uint64.from_buffer(told, 8).value == memory.value, len(bytes(told).rstrip(bytes([0xEE]))) == size)
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), ["libcudart.so.12 True True", "libcudart.so.13 True True"])


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
