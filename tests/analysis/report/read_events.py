# SPDX-License-Identifier: MIT
"""Reads the event file of make_page.cpp with TensorBoard's own reader: python3 read_events.py <folder> [<place>]

With a place, one bit of that byte is changed in a copy first, counted from the end of the file."""
import pathlib
import sys
import tempfile

from tensorboard import version
from tensorboard.backend.event_processing.event_accumulator import HISTOGRAMS, SCALARS, EventAccumulator

folder = pathlib.Path(sys.argv[1])
if len(sys.argv) > 2:
    (file,) = folder.glob("events.out.tfevents.*")
    data = bytearray(file.read_bytes())
    data[-int(sys.argv[2])] ^= 1
    scratch = tempfile.TemporaryDirectory()
    folder = pathlib.Path(scratch.name)
    (folder / file.name).write_bytes(data)
events = EventAccumulator(str(folder), size_guidance={SCALARS: 0, HISTOGRAMS: 0})
events.Reload()
scalars = [(event.step, event.value) for event in events.Scalars("net/loss")]
assert scalars == [(0, 1.0), (1, 0.5), (2, 0.25)], scalars
(event,) = events.Histograms("net/weight")
histogram = event.histogram_value
assert event.step == 2, event
assert (histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares) == (-2, 4, 6, 5, 21), histogram
assert list(histogram.bucket_limit) == [-1, 1, 2, 4], histogram
assert list(histogram.bucket) == [2, 0, 3, 1], histogram
print(f"TensorBoard {version.VERSION} reads 3 numbers and a histogram")
