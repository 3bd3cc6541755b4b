"""Every way to read time and to wait for it, on several threads; raises if they disagree."""
import asyncio
import ctypes
import multiprocessing
import os
import queue
import select
import threading
import time

import gpu

exact = "host_time off" in os.environ["PHANTORA_RUN"].splitlines()
# Clocks show whole nanoseconds, and CUDA's elapsed time is a float of milliseconds.
rounding = 1e-6
readings = {
    "time": time.time,
    "perf_counter": time.perf_counter,
    "monotonic": time.monotonic,
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
    "boottime": lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
}
gpu.set_device()
size = 8 << 30
buffer = gpu.allocate(size)


def work():
    """Some milliseconds of the GPU; returns them by CUDA's own clock, in seconds."""
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    for event in events:
        gpu.cuda("cudaEventCreate", ctypes.byref(event))
    gpu.cuda("cudaEventRecord", events[0], None)
    for _ in range(4):
        gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
    gpu.cuda("cudaEventRecord", events[1], None)
    gpu.synchronize()
    elapsed = ctypes.c_float()
    gpu.cuda("cudaEventElapsedTime", ctypes.byref(elapsed), *events)
    return elapsed.value / 1e3


def expect(what, value, wanted, slack):
    if not -rounding <= value - wanted <= slack:
        raise AssertionError(f"{what}: {value} s, expected {wanted} s and at most {slack} s more")


def differences(action):
    before = {name: read() for name, read in readings.items()}
    result = action()
    return result, {name: read() - before[name] for name, read in readings.items()}


# The host sees the GPU's time pass; so do all its clocks.
on_gpu, on_host = differences(work)
assert on_gpu > 1e-3, on_gpu
for name, seconds in on_host.items():
    expect(f"{name} around GPU work", seconds, on_gpu, 1e-5 if exact else 0.02)

# Sleeping is the program's own, and takes what it says.
_, on_host = differences(lambda: time.sleep(0.25))
for name, seconds in on_host.items():
    expect(f"{name} around sleep(0.25)", seconds, 0.25, 1e-5 if exact else 0.02)

# The same timeline on every thread: one reads before and after what another does.
marks = []


def other():
    marks.append(time.perf_counter())
    marks.append(work())
    marks.append(time.perf_counter())


before = time.perf_counter()
thread = threading.Thread(target=other)
thread.start()
thread.join()
after = time.perf_counter()
assert before <= marks[0] <= marks[2] <= after, (before, marks, after)
expect("another thread's work", marks[2] - marks[0], marks[1], 1e-5 if exact else 0.05)
assert after - before >= marks[1] - rounding, (before, marks, after)

# A thread that does not use the GPU sees the rank's latest time.
gate, seen = threading.Event(), []


def watcher():
    gate.wait()
    seen.append(time.perf_counter())


thread = threading.Thread(target=watcher)
thread.start()
work()
now = time.perf_counter()
gate.set()
thread.join()
assert seen[0] >= now - 1e-3, (seen, now)

# Waits that time out return.
assert not threading.Event().wait(0.05)
try:
    queue.Queue().get(timeout=0.05)
    raise AssertionError("got something from an empty queue")
except queue.Empty:
    pass
condition = threading.Condition()
with condition:
    assert not condition.wait_for(lambda: False, timeout=0.05)
lock = threading.Lock()
lock.acquire()
assert not lock.acquire(timeout=0.05)
try:
    multiprocessing.Queue().get(timeout=0.05)
    raise AssertionError("got something from an empty queue")
except queue.Empty:
    pass
assert select.select([], [], [], 0.05) == ([], [], [])


async def naps():
    await asyncio.sleep(0.05)
    await asyncio.wait_for(asyncio.sleep(0.02), 0.5)
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    except asyncio.TimeoutError:
        return True


assert asyncio.run(naps())

# Loops that poll until a deadline end.
for wait in (lambda: select.select([], [], [], 0.02), lambda: threading.Event().wait(0.02),
             lambda: time.sleep(0.02), lambda: None):
    deadline = time.monotonic() + 0.05
    while time.monotonic() < deadline:
        wait()

# Threads that hand work to each other go on, and no earlier than what they waited for.
todo, done = queue.Queue(), queue.Queue()


def worker():
    while (item := todo.get()) is not None:
        done.put((item, work(), time.perf_counter()))


workers = [threading.Thread(target=worker) for _ in range(2)]
for one in workers:
    one.start()
start = time.perf_counter()
for item in range(4):
    todo.put(item)
results = [done.get() for _ in range(4)]
for one in workers:
    todo.put(None)
for one in workers:
    one.join()
assert sorted(item for item, _, _ in results) == [0, 1, 2, 3]
for _, seconds, at in results:
    assert at - start >= seconds - rounding, (at, start, seconds)
assert time.perf_counter() >= max(at for _, _, at in results)
print("clocks agree", flush=True)
