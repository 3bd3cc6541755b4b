"""An environment with NVIDIA's wheels, on a machine with a driver: ours are used, whatever path is asked for."""
import unittest

from job import JobTest, main, printed

LIBRARIES = {
    "cu12/lib": ["libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
                 "libcusolver.so.11", "libcusparse.so.12", "libcupti.so.12"],
    "cu13/lib": ["libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12",
                 "libcusolver.so.12", "libcusparse.so.12", "libcupti.so.13", "libcufile.so.0",
                 "libcurand.so.10"],
    "cudnn/lib": ["libcudnn.so.9"],
    "nccl/lib": ["libnccl.so.2"],
    "nvshmem/lib": ["libnvshmem_host.so.3"],
    "cusparselt/lib": ["libcusparseLt.so.0"],
    "driver": ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"],
}


class Wheels(JobTest):
    def test_files_of_the_wheels_are_not_opened(self):
        paths = []
        for folder, names in LIBRARIES.items():
            for name in names:
                path = self.directory / "nvidia" / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("not a library: whoever opens it fails\n")
                paths.append(str(path))
        folders = ":".join(sorted({path.rpartition("/")[0] for path in paths}))
        job = self.run_python(f"""
            import ctypes
            for path in {paths!r}:
                ctypes.CDLL(path)
            version = ctypes.c_int()
            for name in ("libcudart.so.12", "libcudart.so.13"):
                ctypes.CDLL([p for p in {paths!r} if p.endswith(name)][0]).cudaRuntimeGetVersion(ctypes.byref(version))
                print(name, version.value // 1000)
            """, cluster="h200:1x1", environment={"LD_LIBRARY_PATH": folders})
        self.assertEqual(printed(job), ["libcudart.so.12 12", "libcudart.so.13 13"])


if __name__ == "__main__":
    main()
