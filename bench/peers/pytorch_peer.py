#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's fake-quantize, observers and histogram on the tensors of streaming_bench, one thread.

    python3 bench/peers/pytorch_peer.py [build/bench/streaming.json] [--sizes 64Ki,1Mi,16Mi]

Needs the package torch; without it the script says so and ends with status 77, which ctest counts as skipped. ./dev
bench does not run it. With the JSON that streaming_bench has just written it prints PyTorch's time / ours beside each
row; figures of two processes: run both on an idle machine, in turns, under the same `taskset -c N`.

Tensors are float32, normally distributed, of 65,536, 1,048,576 and 16,777,216 elements in rows of 64 channels. A row is
the median of samples of at least 0.2 ms over 0.3 s of the thread's processor time, after one call that is not counted.
Results that PyTorch allocates anew in each call are part of its time.

    fake_quantize            torch.fake_quantize_per_tensor_affine, _per_channel_affine: forward, no gradient wanted
    fake_quantize_backward   the backward pass alone: autograd from a graph that is kept, into a gradient that is new
    forward_backward         both, as training does them; beside ours it is the sum of our two rows
    lsq                      forward and backward of torch._fake_quantize_learnable_per_tensor_affine and _per_channel_,
                             with gradients of x, scale and zero point; ours is fake_quantize and lsq_backward
    min_max                  MinMaxObserver and PerChannelMinMaxObserver, forward
    histogram                torch.histc with 2048 bins between -4 and 4, and HistogramObserver's later batches
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch
    from torch.ao.quantization import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CHANNELS = 64
SIZES = {"64Ki": 1 << 16, "1Mi": 1 << 20, "16Mi": 1 << 24}


def microseconds(run):
    """Median time of one call."""
    clock = time.thread_time
    run()
    start = clock()
    run()
    calls = max(1, int(2e-4 / (clock() - start)))
    samples, end = [], clock() + 0.3
    while clock() < end or len(samples) < 5:
        start = clock()
        for _ in range(calls):
            run()
        samples.append((clock() - start) / calls)
    return statistics.median(samples) * 1e6


def passes(forward, inputs, gradient):
    """Functions for forward, backward and both; the inputs want gradients."""
    kept = forward()

    def both():
        torch.autograd.grad(forward(), inputs, gradient)

    def backward():
        torch.autograd.grad(kept, inputs, gradient, retain_graph=True)

    return backward, both


def rows(size):
    """Name of the row, labels of ours whose times are added, function to time."""
    torch.manual_seed(1)
    x = torch.randn(size // CHANNELS, CHANNELS)
    gradient = torch.randn_like(x)
    wanted = x.clone().requires_grad_()
    scales = 0.02 + 0.0001 * torch.arange(CHANNELS, dtype=torch.float32)
    zeros = torch.zeros(CHANNELS, dtype=torch.int32)
    scale, zero = torch.tensor([0.02], requires_grad=True), torch.tensor([0.0], requires_grad=True)
    learned, learned_zeros = scales.clone().requires_grad_(), torch.zeros(CHANNELS, requires_grad=True)
    kinds = {
        "per_tensor": (
            lambda t: torch.fake_quantize_per_tensor_affine(t, 0.02, 0, -128, 127),
            lambda: torch._fake_quantize_learnable_per_tensor_affine(wanted, scale, zero, -128, 127, 0.1),
            [wanted, scale, zero]),
        "per_channel": (
            lambda t: torch.fake_quantize_per_channel_affine(t, scales, zeros, 1, -128, 127),
            lambda: torch._fake_quantize_learnable_per_channel_affine(wanted, learned, learned_zeros, 1, -128, 127,
                                                                      0.1),
            [wanted, learned, learned_zeros]),
    }
    for kind, (fake, learnable, inputs) in kinds.items():
        forward, backward = f"fake_quantize/f32/{kind}", f"fake_quantize_backward/f32/{kind}"
        yield forward, [forward], lambda fake=fake: fake(x)
        back, both = passes(lambda fake=fake: fake(wanted), [wanted], gradient)
        yield backward, [backward], back
        yield f"forward_backward/f32/{kind}", [forward, backward], both
        yield f"lsq/f32/{kind}", [forward, f"lsq_backward/f32/{kind}"], passes(learnable, inputs, gradient)[1]
    for kind, observer in (("per_tensor", MinMaxObserver()), ("per_channel", PerChannelMinMaxObserver(ch_axis=1))):
        label = f"min_max/f32/{kind}"
        yield label, [label], lambda observer=observer: observer(x)
    histogram = "histogram/f32/2048_bins"
    yield "histc/f32/2048_bins", [histogram], lambda: torch.histc(x, 2048, -4.0, 4.0)
    observer = HistogramObserver(bins=2048)
    observer(x)
    yield "HistogramObserver/f32/2048_bins", [histogram], lambda: observer(x)


def read_ours(path):
    """Microseconds by label without backend, and size; of several backends the first."""
    found = {}
    for row in json.load(open(path, encoding="utf-8"))["rows"] if path else []:
        label, _backend, size = row["label"].rsplit("/", 2)
        found.setdefault((label, size), row["us"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("ours", nargs="?", help="streaming.json of streaming_bench")
    parser.add_argument("--sizes", default=",".join(SIZES), help="which of 64Ki, 1Mi, 16Mi")
    arguments = parser.parse_args()
    ours = read_ours(arguments.ours)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, {torch.backends.cpu.get_cpu_capability()}")
    print(f"{'row':<40} {'elements':>8} {'us':>12} {'Gelem/s':>8} {'ours us':>10} {'ratio':>7}")
    for size in arguments.sizes.split(","):
        for name, labels, run in rows(SIZES[size]):
            time_us = microseconds(run)
            times = [ours.get((label, size)) for label in labels]
            own = None if None in times else sum(times)
            print(f"{name:<40} {size:>8} {time_us:>12.1f} {SIZES[size] / time_us * 1e-3:>8.3f} "
                  f"{'-' if own is None else format(own, '10.1f'):>10} "
                  f"{'-' if own is None else format(time_us / own, '7.1f'):>7}", flush=True)


if __name__ == "__main__":
    main()
