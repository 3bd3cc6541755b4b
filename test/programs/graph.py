"""CUDA graphs through ctypes, for programs of test/jobs/graphs_test.py."""
import ctypes
import os

from gpu import allocate, cuda, cudart  # noqa: F401: for who imports this

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
D2H, D2D = 2, 3
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def size(n):
    return ctypes.c_size_t(n)


def status(name, *arguments):
    """What a runtime function returns, and then there is no last error."""
    result = getattr(cudart, name)(*arguments)
    cudart.cudaGetLastError()
    return result


def pointer(make, *arguments):
    """What a function writes through its first argument."""
    result = ctypes.c_void_p()
    cuda(make, ctypes.byref(result), *arguments)
    return result


def stream(blocking=False):
    return pointer("cudaStreamCreateWithFlags", 0 if blocking else 1)


def event():
    return pointer("cudaEventCreateWithFlags", 0)


def fill(where, value, count, on):
    cuda("cudaMemsetAsync", where, value, size(count), on)


def copy(to, source, count, on):
    cuda("cudaMemcpyAsync", to, source, size(count), 4, on)


def read(where, count=4):
    """Bytes of device memory."""
    bytes_there = ctypes.create_string_buffer(count)
    cuda("cudaMemcpy", bytes_there, where, size(count), D2H)
    return list(bytes_there.raw)


def begin(on, mode=RELAXED):
    cuda("cudaStreamBeginCapture", on, mode)


def end(on):
    graph = ctypes.c_void_p()
    cuda("cudaStreamEndCapture", on, ctypes.byref(graph))
    return graph


def end_status(on):
    graph = ctypes.c_void_p(1)
    result = status("cudaStreamEndCapture", on, ctypes.byref(graph))
    return result, graph.value


def nodes(graph, what="cudaGraphGetNodes"):
    count = size(0)
    cuda(what, graph, None, ctypes.byref(count))
    there = (ctypes.c_void_p * count.value)()
    cuda(what, graph, there, ctypes.byref(count))
    return [ctypes.c_void_p(node) for node in there]


def edges(graph):
    count = size(0)
    cuda("cudaGraphGetEdges", graph, None, None, None, ctypes.byref(count))
    begins, ends = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)()
    cuda("cudaGraphGetEdges", graph, begins, ends, None, ctypes.byref(count))
    places = {node.value: place for place, node in enumerate(nodes(graph))}
    return sorted((places[a], places[b]) for a, b in zip(begins, ends))


def types(graph):
    found = []
    for node in nodes(graph):
        kind = ctypes.c_int()
        cuda("cudaGraphNodeGetType", node, ctypes.byref(kind))
        found.append(kind.value)
    return found


def instantiate(graph, flags=0):
    return pointer("cudaGraphInstantiate", graph, ctypes.c_ulonglong(flags))


def launch(executable, on):
    cuda("cudaGraphLaunch", executable, on)


def synchronize(on):
    cuda("cudaStreamSynchronize", on)


def timed(on, work):
    """Device time in nanoseconds of what work() puts into the stream."""
    first, last = event(), event()
    cuda("cudaEventRecord", first, on)
    work()
    cuda("cudaEventRecord", last, on)
    synchronize(on)
    milliseconds = ctypes.c_float()
    cuda("cudaEventElapsedTime", ctypes.byref(milliseconds), first, last)
    return round(milliseconds.value * 1e6)
