#!/usr/bin/env python3
"""How much longer the same Python work takes after a pause, in which its thread waits, computes, or waits for one that computes.

    after_a_pause.py    # prints a line for each pause: times of the first and second piece of work, over one that follows no pause

A piece takes a third of a millisecond and touches some 0.8 MB of small objects. (README.md, "Serving")
"""
import ctypes
import queue
import random
import statistics
import threading
import time

REPEATED, TOUCHED = 25, 1500
LIBC = ctypes.CDLL(None)
BUFFER = ctypes.create_string_buffer(16 << 20)


class Request:
    def __init__(self, number):
        self.name, self.size = str(number), random.random()
        self.tokens, self.state = [number, {"at": number}], {"number": number, "name": str(number)}


def work(requests):
    total = 0
    for request in requests:
        total += request.state["number"] + len(request.tokens) + request.size
        request.state["name"] = request.name
        request.tokens[1]["at"] = total


def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place in range(0, len(BUFFER), 2 << 20):
            LIBC.memset(ctypes.byref(BUFFER, place), 1, 2 << 20)


def main():
    random.seed(1)
    requests = [Request(number) for number in range(20000)]
    random.shuffle(requests)
    touched = requests[:TOUCHED]
    asked, done = queue.SimpleQueue(), queue.SimpleQueue()

    def other():
        while True:
            compute(asked.get())
            done.put(None)

    def wait_for_other(seconds):
        asked.put(seconds)
        done.get()

    threading.Thread(target=other, daemon=True).start()

    def pieces(pause, seconds):
        times = []
        for _ in range(REPEATED):
            pause(seconds)
            begins = [time.perf_counter()]
            for _ in range(2):
                work(touched)
                begins.append(time.perf_counter())
            times.append((begins[1] - begins[0], begins[2] - begins[1]))
        return [statistics.median(of) for of in zip(*times)]

    _, warm = pieces(lambda _: work(touched), 0)
    print(f"a piece: {1e6 * warm:.0f} us\n| pause, ms | waits | computes | another thread computes |\n| --- | --- | --- | --- |")
    for seconds in (0.0003, 0.001, 0.002, 0.008, 0.02):
        cells = [" and ".join(f"{took / warm:.2f}" for took in pieces(pause, seconds)) for pause in (time.sleep, compute, wait_for_other)]
        print(f"| {1e3 * seconds:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
