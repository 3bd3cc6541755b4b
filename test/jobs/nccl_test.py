"""Communicators made of others, and suspended ones."""
import unittest

from job import JobTest, main, printed


class Communicators(JobTest):
    def test_unique_id_of_a_process_that_has_ended(self):
        """torchrun's static rendezvous keeps its store when it restarts workers: one that comes before
        the new rank 0 reads the old one's id, and must fail so that it is restarted again."""
        job = self.run_python("""
            import ctypes, os, time, gpu
            from gpu import nccl
            gpu.set_device()
            if gpu.rank == 0:
                unique = gpu.UniqueId()
                nccl.ncclGetUniqueId(ctypes.byref(unique))
                open("id.part", "wb").write(bytes(unique))
                os.rename("id.part", "id")
            else:
                while not os.path.exists("id"): time.sleep(1e-3)
                unique = gpu.UniqueId.from_buffer_copy(open("id", "rb").read())
                comm = ctypes.c_void_p()
                print("status", nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, 1))
            """, cluster="h200:1x2")
        self.assertEqual(printed(job), ["status 2"])  # ncclSystemError

    def test_shrink_and_grow(self):
        job = self.run_python("""
            import ctypes, gpu
            from gpu import nccl
            gpu.set_device()
            everyone = gpu.Communicator()
            cell = gpu.allocate(4)

            def sum_of_ranks(handle):
                value = ctypes.c_float(gpu.rank)
                gpu.cuda("cudaMemcpy", cell, ctypes.byref(value), ctypes.c_size_t(4), 1)
                status = nccl.ncclAllReduce(cell, cell, ctypes.c_size_t(1), gpu.FLOAT32, gpu.SUM, handle, None)
                gpu.cuda("cudaMemcpy", ctypes.byref(value), cell, ctypes.c_size_t(4), 2)
                return status, value.value

            def number(handle):
                rank, ranks = ctypes.c_int(), ctypes.c_int()
                nccl.ncclCommUserRank(handle, ctypes.byref(rank))
                nccl.ncclCommCount(handle, ctypes.byref(ranks))
                return rank.value, ranks.value

            # Without rank 1, twice, and without ranks 1 and 3: three communicators.
            for out in ([1], [1], [3, 1]):
                fewer = ctypes.c_void_p()
                if gpu.rank in out: continue
                listed = (ctypes.c_int * len(out))(*out)
                status = nccl.ncclCommShrink(everyone.handle, listed, len(out), ctypes.byref(fewer), None, 0)
                print(gpu.rank, out, status, number(fewer), sum_of_ranks(fewer))
            listed = (ctypes.c_int * 1)(gpu.rank)
            print(gpu.rank, "itself", nccl.ncclCommShrink(everyone.handle, listed, 1, ctypes.byref(ctypes.c_void_p()), None, 0))

            # Ranks 0 and 1 grow by 2 and 3, which learn the name of it as any program would tell them.
            part = everyone.split(0 if gpu.rank < 2 else 1)
            name, more = gpu.UniqueId(), ctypes.c_void_p()
            if gpu.rank == 0:
                nccl.ncclCommGetUniqueId(part.handle, ctypes.byref(name))
                print("again", nccl.ncclCommGetUniqueId(part.handle, ctypes.byref(gpu.UniqueId())))
            told = gpu.allocate(128)
            gpu.cuda("cudaMemcpy", told, ctypes.byref(name), ctypes.c_size_t(128), 1)
            everyone.broadcast(told, 32, 0)
            gpu.cuda("cudaMemcpy", ctypes.byref(name), told, ctypes.c_size_t(128), 2)
            id = ctypes.byref(name) if gpu.rank != 1 else None
            old = part.handle if gpu.rank < 2 else None
            status = nccl.ncclCommGrow(old, 4, id, -1 if gpu.rank < 2 else gpu.rank, ctypes.byref(more), None)
            print(gpu.rank, "grown", status, number(more), sum_of_ranks(more))
            """, cluster="h200:1x4", options=["--host-time", "off"])
        self.assertEqual(printed(job), sorted(
            [f"{rank} [1] 0 ({max(rank - 1, 0)}, 3) (0, 5.0)" for rank in (0, 2, 3) for _ in range(2)] +
            ["0 [3, 1] 0 (0, 2) (0, 2.0)", "2 [3, 1] 0 (1, 2) (0, 2.0)", "again 5"] +
            [f"{rank} itself 4" for rank in range(4)] +
            [f"{rank} grown 0 ({rank}, 4) (0, 6.0)" for rank in range(4)]))

    def test_suspend(self):
        job = self.run_python("""
            import ctypes, gpu
            from gpu import nccl
            gpu.set_device()
            handle = gpu.Communicator().handle
            cell = gpu.allocate(4)
            all_reduce = lambda: nccl.ncclAllReduce(cell, cell, ctypes.c_size_t(1), gpu.FLOAT32, gpu.SUM, handle, None)
            def suspended():
                value = ctypes.c_uint64(7)
                return nccl.ncclCommMemStats(handle, 1, ctypes.byref(value)), value.value
            print(suspended(), nccl.ncclCommSuspend(handle, 1), suspended(), all_reduce(),
                  nccl.ncclCommResume(handle), suspended(), all_reduce(),
                  nccl.ncclCommSuspend(handle, 6), nccl.ncclCommMemStats(handle, 9, ctypes.byref(ctypes.c_uint64())))
            """, cluster="h200:1x1")
        self.assertEqual(printed(job), ["(0, 0) 0 (0, 1) 5 0 (0, 0) 0 4 4"])

    def test_properties(self):
        # JAX asks whether GPUs can communicate by themselves: they cannot.
        job = self.run_python("""
            import ctypes, gpu
            from gpu import nccl
            class Properties(ctypes.Structure):
                _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                            ("rank", ctypes.c_int), ("ranks", ctypes.c_int), ("device", ctypes.c_int),
                            ("nvml", ctypes.c_int), ("can", ctypes.c_ubyte * 64), ("behind", ctypes.c_int)]
            def asked(size, magic):
                told = Properties(size, magic, 22907, 9, 9, 9, 9, (ctypes.c_ubyte * 64)(*[9] * 64), 9)
                status = nccl.ncclCommQueryProperties(handle, ctypes.byref(told))
                return status, told.rank, told.ranks, told.device, told.nvml, set(told.can), told.behind
            gpu.set_device()
            handle = gpu.Communicator().handle
            print(asked(96, 0xcafebeef), asked(96, 1)[0], asked(16, 0xcafebeef)[0])
            """, cluster="h200:1x2")
        self.assertEqual(sorted(printed(job)), [f"(0, {rank}, 2, {rank}, {rank}, {{0}}, 9) 4 4" for rank in (0, 1)])


if __name__ == "__main__":
    main()
