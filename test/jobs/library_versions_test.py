"""Libraries that say which release they are, as JAX and CuPy ask before they begin."""
from job import JobTest, main


class LibraryVersions(JobTest):
    def test_the_number_is_made_of_the_parts(self):
        job = self.run_python("""
            import ctypes

            def number(call, *before):
                out = ctypes.c_int(-1)
                assert call(*before, ctypes.byref(out)) == 0, call.__name__
                return out.value

            for name, file, handle in (("cufft", "libcufft.so.12", False), ("curand", "libcurand.so.10", False),
                                       ("cusparse", "libcusparse.so.12", True), ("cusolver", "libcusolver.so.12", False)):
                library = ctypes.CDLL(file)
                before = ()
                if handle:
                    made = ctypes.c_void_p()
                    assert getattr(library, f"{name}Create")(ctypes.byref(made)) == 0
                    before = (made,)
                version = number(getattr(library, f"{name}GetVersion"), *before)
                part = getattr(library, f"{name}GetProperty")
                major, minor, patch = (number(part, which) for which in range(3))
                assert version == 1000 * major + 100 * minor + patch, name
                assert part(3, ctypes.byref(ctypes.c_int())) != 0 and part(0, None) != 0, name
                print(name, version, flush=True)
            """, cluster="h200:1x1")
        # cufft.h, curand.h, cusparse.h and cusolver_common.h of CUDA 13.0.
        for line in ("cufft 12000", "curand 10400", "cusparse 12603", "cusolver 12004"):
            self.assertIn(line, job.out)


if __name__ == "__main__":
    main()
