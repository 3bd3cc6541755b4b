"""What a rank knows of its GPUs' memory, for programs that test that."""
import ctypes

# bool phantora::rank::known(const void*, size_t), of the library that every rank has loaded.
known_bytes = ctypes.CDLL(None)["_ZN8phantora4rank5knownEPKvm"]
known_bytes.restype = ctypes.c_bool
known_bytes.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
