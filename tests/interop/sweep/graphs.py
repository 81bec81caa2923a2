# SPDX-License-Identifier: MIT
"""Small float ONNX graphs around the operators that keep a grid: pads, clips, means, resizes, constants, concats.

make_graph(seed, number) gives the graph of that number; the same seed gives the same graphs. A graph is drawn operator
by operator, and each operator is run at once, so that a bound or a constant can be put inside, at or beyond the range
of what it reads. Values are between about 10^-3 and 10^3. Long because each family of operators has a function.
"""
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CALIBRATION, OTHER = 16, 16  # samples; both are drawn from one distribution
OPSET, IR = 17, 8


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Builder:
    """A graph with one input and the values of all its tensors on all samples."""

    def __init__(self, random, shape, scale):
        self.random, self.nodes, self.constants = random, [], []
        self.label, self.peer_constants = [], {}
        kind = self.choose("normal", "uniform", "positive", "shifted")
        x = random.standard_normal((CALIBRATION + OTHER, *shape))
        if kind == "uniform":
            x = random.uniform(-1, 1, x.shape)
        elif kind == "positive":
            x = numpy.abs(x)
        elif kind == "shifted":
            x = 0.4 * x + random.choice([-1, 1])
        self.values = {"x": (scale * x).astype(numpy.float32)}
        self.say(f"x({kind},{'x'.join(map(str, shape))},{scale:.3g})")

    def say(self, text):
        self.label.append(text)

    def choose(self, *options):
        return options[self.random.integers(len(options))]

    def chance(self, share):
        return self.random.random() < share

    def constant(self, array):
        name = f"c{len(self.values)}"
        self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(array), name))
        self.values[name] = numpy.asarray(array)
        return name

    def floats(self, array):
        return self.constant(numpy.asarray(array, numpy.float32))

    def ints(self, *numbers):
        return self.constant(numpy.asarray(numbers, numpy.int64))

    def op(self, op_type, *inputs, **attributes):
        output = f"v{len(self.values)}"
        node = helper.make_node(op_type, inputs, [output], name=f"{op_type.lower()}_{len(self.nodes)}", **attributes)
        used = [name for name in dict.fromkeys(inputs) if name]
        constants = {tensor.name: tensor for tensor in self.constants}
        fed = {name: self.values[name] for name in used if name not in constants}
        graph = helper.make_graph(
            [node], "one", [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in fed.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [constants[name] for name in used if name in constants])
        self.values[output] = session(made(graph)).run(None, fed)[0]
        self.nodes.append(node)
        return output

    # --- what is known of a value -----------------------------------------------------------------------------------

    def shape(self, x):
        return self.values[x].shape

    def channels(self, x):
        return self.values[x].shape[1]

    def range(self, x):
        seen = self.values[x][:CALIBRATION]
        return float(seen.min()), float(seen.max())

    def magnitude(self, x):
        return max(abs(bound) for bound in self.range(x)) or 1.0

    def some_range(self, x):
        """The magnitude that a layer behind x is to have; no weight is beyond 10^3 or below 10^-3 of its input."""
        near = numpy.log10(self.magnitude(x))
        return 10 ** float(numpy.clip(self.random.uniform(-3, 3), near - 2.5, near + 2.5))

    def model(self, output, for_peer=False):
        shape = ["N", *self.shape(output)[1:]]
        constants = [self.peer_constants.get(tensor.name, tensor) if for_peer else tensor for tensor in self.constants]
        return made(helper.make_graph(
            self.nodes, "sweep", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.shape("x")[1:]])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)], constants))


def made(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


# --- layers ---------------------------------------------------------------------------------------------------------

def layer(b, op_type, x, shape, axis, range_of=None, **attributes):
    """A layer with weights whose outputs have about the magnitude range_of."""
    weights = b.random.standard_normal(shape)
    if b.chance(0.3):  # channels of other gains
        gains = 10 ** b.random.uniform(-1, 0, shape[axis])
        weights *= gains.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    probe = Builder.__new__(Builder)
    probe.__dict__.update(b.__dict__, nodes=[], constants=[], values=dict(b.values))
    plain = probe.magnitude(probe.op(op_type, x, probe.floats(weights), **attributes))
    wanted = b.some_range(x) if range_of is None else range_of
    inputs = [x, b.floats(weights * wanted / plain)]
    if b.chance(0.8):
        inputs.append(b.floats(b.random.uniform(-0.5, 0.5, shape[axis]) * wanted))
    b.say(f"{op_type.lower()}({wanted:.3g})")
    return b.op(op_type, *inputs, **attributes)


def conv(b, x, range_of=None, channels=None):
    kernel = b.choose(1, 3) if min(b.shape(x)[2:]) >= 3 else 1
    channels = channels or int(b.random.integers(3, 9))
    return layer(b, "Conv", x, (channels, b.channels(x), kernel, kernel), 0, range_of, kernel_shape=[kernel] * 2,
                 pads=[kernel // 2] * 4)


def depthwise(b, x, range_of=None):
    kernel = 3 if min(b.shape(x)[2:]) >= 3 else 1
    return layer(b, "Conv", x, (b.channels(x), 1, kernel, kernel), 0, range_of, kernel_shape=[kernel] * 2,
                 pads=[kernel // 2] * 4, group=b.channels(x))


def gemm(b, x, range_of=None):
    return layer(b, "Gemm", x, (int(b.random.integers(4, 13)), b.channels(x)), 0, range_of, transB=1)


def weighted(b, x, range_of=None):
    if len(b.shape(x)) == 2:
        return gemm(b, x, range_of)
    return b.choose(conv, conv, depthwise)(b, x, range_of)


def relu(b, x):
    b.say("relu")
    return b.op("Relu", x)


def max_pool(b, x):
    if min(b.shape(x)[2:]) < 2:
        return x
    b.say("maxpool")
    return b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])


def flat(b, x):
    if len(b.shape(x)) == 2:
        return x
    way = b.choose("flatten", "reshape")
    b.say(way)
    return b.op("Flatten", x, axis=1) if way == "flatten" else b.op("Reshape", x, b.ints(0, -1))


# --- operators that keep a grid -------------------------------------------------------------------------------------

def pad(b, x):
    if len(b.shape(x)) == 2:
        return x
    low, high = b.range(x)
    a = b.magnitude(x)
    if b.chance(0.1):
        return mask(b, x)
    value = b.choose(0.0, 0.05 * a, -0.05 * a, low, high, 0.5 * high, 2.2 * a, -2.2 * a, 8 * a, -8 * a)
    before, after = ([0, 0, *b.random.integers(0, 3, 2)] for _ in range(2))
    if sum(before) + sum(after) == 0:
        after[-1] = 1
    b.say(f"pad({value:.3g} on {low:.3g}..{high:.3g})")
    return b.op("Pad", x, b.ints(*before, *after), b.floats(value))


def mask(b, x):
    """A pad that a max pool never chooses. ONNX Runtime's tool, which would take it for a range, gets another number."""
    value = b.choose(-numpy.inf, float(numpy.finfo(numpy.float32).min))
    name = b.floats(value)
    b.peer_constants[name] = numpy_helper.from_array(numpy.float32(b.range(x)[0]), name)
    b.say(f"mask({value:.3g}),maxpool")
    padded = b.op("Pad", x, b.ints(0, 0, 1, 1, 0, 0, 1, 1), name)
    return b.op("MaxPool", padded, kernel_shape=[3, 3], strides=[b.choose(1, 2)] * 2)


def bounds(b, x):
    """Two bounds, either may be None."""
    low, high = b.range(x)
    a, middle = b.magnitude(x), 0.5 * (low + high)
    both = b.choose((0.6 * low, 0.7 * high), (low, high), (0.04 * low, 0.05 * high), (2 * low, 2 * high),
                    (0.0, 0.6 * high), (0.0, 0.02 * a), (0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (middle, high),
                    (0.2 * high, 0.6 * high), (None, 0.3 * high), (0.3 * low, None), (0.0, None), (None, 0.0),
                    (-3 * a, 0.1 * a), (None, 2 * a), (float(numpy.finfo(numpy.float32).min), 0.4 * high))
    lower, upper = both
    if lower is not None and upper is not None and lower > upper:
        lower, upper = upper, lower
    seen = b.values[x][:CALIBRATION]
    clipped = numpy.clip(seen, -numpy.inf if lower is None else lower, numpy.inf if upper is None else upper)
    if numpy.ptp(clipped) < 1e-3 * a and not b.chance(0.05):  # few that give one number
        return bounds(b, x)
    return lower, upper


def clip(b, x):
    low, high = b.range(x)
    lower, upper = bounds(b, x)
    b.say(f"clip({lower if lower is None else f'{lower:.3g}'},{upper if upper is None else f'{upper:.3g}'} on "
          f"{low:.3g}..{high:.3g})")
    return b.op("Clip", x, *["" if bound is None else b.floats(bound) for bound in (lower, upper)])


def min_max(b, x):
    low, high = b.range(x)
    lower, upper = bounds(b, x)
    b.say(f"minmax({lower if lower is None else f'{lower:.3g}'},{upper if upper is None else f'{upper:.3g}'} on "
          f"{low:.3g}..{high:.3g})")
    for op_type, bound in (("Max", lower), ("Min", upper)):
        if bound is not None:
            x = b.op(op_type, x, b.floats(b.choose(bound, [bound])))
    return x


def mean(b, x):
    if len(b.shape(x)) == 2:
        return x
    way = b.choose("global", "reduce", "reduce_keep", "window", "window_padded")
    b.say(f"mean({way})")
    if way == "global":
        return b.op("GlobalAveragePool", x)
    if way.startswith("reduce"):
        return b.op("ReduceMean", x, axes=[2, 3], keepdims=int(way == "reduce_keep"))
    kernel = b.choose(2, 3) if min(b.shape(x)[2:]) >= 3 else 1
    pads = [kernel // 2] * 4 if way == "window_padded" else [0] * 4
    return b.op("AveragePool", x, kernel_shape=[kernel] * 2, strides=[b.choose(1, 2)] * 2, pads=pads,
                count_include_pad=b.choose(0, 0, 1))


def resize(b, x):
    if len(b.shape(x)) == 2 or max(b.shape(x)[2:]) > 14:
        return x
    mode = b.choose("nearest", "nearest", "linear", "linear")
    coordinates = "asymmetric" if mode == "nearest" else b.choose("half_pixel", "align_corners", "pytorch_half_pixel")
    factor = b.choose(2, 2, 3)
    b.say(f"resize({mode},{coordinates},{factor})")
    options = {"nearest_mode": "floor"} if mode == "nearest" else {}
    return b.op("Resize", x, "", b.floats([1, 1, factor, factor]), mode=mode,
                coordinate_transformation_mode=coordinates, **options)


def constant_operand(b, x):
    a, rank = b.magnitude(x), len(b.shape(x))
    op_type = b.choose("Add", "Sub", "Mul", "Mul", "Div")
    is_per_channel = b.chance(0.4)
    count = b.channels(x) if is_per_channel else 1
    if op_type in ("Add", "Sub"):
        c = b.random.uniform(-1, 1, count) * a * b.choose(0.01, 0.3, 1, 3)
    else:
        c = b.choose(0.5, 2.0, 0.125, 1 / 6, 10 ** b.random.uniform(-1.5, 1.5)) * 2 ** b.random.uniform(-1, 1, count)
        if not is_per_channel and b.chance(0.3):
            c = numpy.asarray([b.choose(0.5, 2.0, 1.0, 1 / 3)])
        if b.chance(0.2):
            c = c * b.random.choice([-1, 1], count)
    shape = [count if is_per_channel and i == 1 else 1 for i in range(rank)]
    if is_per_channel:
        shape = b.choose(shape, shape[1:])
    else:
        shape = b.choose([], [1], shape)
    order = [x, b.floats(c.reshape(shape))]
    is_turned = op_type in ("Add", "Sub", "Mul") and b.chance(0.3)
    b.say(f"{op_type.lower()}({'c,x' if is_turned else 'x,c'} {'per channel' if is_per_channel else 'one'} "
          f"{shape} c={c.min():.3g}..{c.max():.3g} on {a:.3g})")
    return b.op(op_type, *(reversed(order) if is_turned else order))


def hard_swish(b, x):
    way = b.choose("by hand", "by hand", "relu6 by hand", "HardSwish", "HardSigmoid")
    if len(b.shape(x)) == 4 or b.chance(0.5):
        x = weighted(b, x, b.choose(1.0, 4.0, 8.0, 60.0))
    b.say(f"hardswish({way})")
    if way == "HardSwish":
        return b.op("HardSwish", x)
    if way == "HardSigmoid":
        return b.op("Mul", x, b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    shifted = b.op("Add", x, b.floats(b.choose(3.0, [3.0])))
    gate = b.op("Clip", shifted, b.floats(0.0), b.floats(6.0))
    if way == "by hand":
        return b.op("Mul", x, b.choose(lambda: b.op("Div", gate, b.floats(6.0)),
                                       lambda: b.op("Mul", gate, b.floats([1 / 6])))())
    return b.op("Div", b.op("Mul", x, gate), b.floats(6.0))


def concat(b, x):
    parts = [x]
    for _ in range(b.choose(1, 1, 2)):
        way = b.choose("layer", "layer", "relu", "clip", "scaled")
        y = x
        if way == "layer":
            y = weighted(b, x, 10 ** b.random.uniform(-2, 2) * b.magnitude(x))
        elif way == "relu":
            y = relu(b, x)
        elif way == "clip":
            y = clip(b, x)
        else:
            y = b.op("Mul", x, b.floats(b.choose(0.25, 3.0)))
        parts.append(y)
    b.random.shuffle(parts)
    b.say(f"concat({','.join(f'{b.magnitude(part):.3g}' for part in parts)})")
    return b.op("Concat", *parts, axis=1)


def rearrange(b, x):
    if len(b.shape(x)) == 2:
        x = b.op("Unsqueeze", x, b.ints(2))
        b.say("unsqueeze,squeeze")
        return b.op("Squeeze", x, b.ints(2))
    way = b.choose("transpose", "reshape", "mean_squeeze", "mean_reshape", "mean_flatten", "mean_transpose")
    b.say(f"rearrange({way})")
    _, c, h, w = b.shape(x)
    if way == "transpose":
        return b.op("Flatten", b.op("Transpose", x, perm=[0, 2, 3, 1]), axis=1)
    if way == "reshape":
        return b.op("Reshape", b.op("Reshape", x, b.ints(0, c, h * w)), b.ints(0, c, h, w))
    averaged = b.choose(lambda: b.op("ReduceMean", x, axes=[2, 3], keepdims=1), lambda: b.op("GlobalAveragePool", x))()
    if way == "mean_squeeze":
        return b.op("Squeeze", averaged, b.ints(2, 3))
    if way == "mean_reshape":
        return b.op("Reshape", averaged, b.ints(0, c))
    if way == "mean_flatten":
        return b.op("Flatten", averaged, axis=1)
    return b.op("Flatten", b.op("Transpose", averaged, perm=[0, 2, 3, 1]), axis=1)


def function(b, x):
    """A function of one number."""
    way = b.choose("Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Relu", "Elu")
    if b.magnitude(x) > 50 or b.magnitude(x) < 0.05:
        x = weighted(b, x, 4.0)
    b.say(way.lower())
    return b.op(way, x, **({"alpha": 0.1} if way == "LeakyRelu" else {}))


def residual(b, x):
    """A value that is read on two ways."""
    y = b.choose(clip, clip, min_max, relu, constant_operand, function)(b, x)
    if b.shape(x) != b.shape(y) or x == y:
        return y
    op_type = b.choose("Add", "Add", "Mul", "Concat")
    b.say(f"with what it reads: {op_type.lower()}")
    return b.op(op_type, *b.choose((x, y), (y, x)), **({"axis": 1} if op_type == "Concat" else {}))


FAMILIES = [pad, clip, mean, resize, constant_operand, concat, hard_swish, min_max, rearrange, function, residual, clip]


# --- whole graphs ---------------------------------------------------------------------------------------------------

def front(b, x):
    way = b.choose("none", "layer", "layer", "layer_relu", "layer_relu", "pool", "two")
    if way == "none":
        return x
    if way == "pool":
        return max_pool(b, x) if len(b.shape(x)) == 4 else x
    x = weighted(b, x)
    if way == "layer_relu":
        return relu(b, x)
    return weighted(b, relu(b, x)) if way == "two" else x


def back(b, x):
    way = b.choose("none", "layer", "layer", "layer_relu", "relu", "pool", "classifier", "flat_gemm")
    if way == "none":
        return x
    if len(b.shape(x)) == 2:
        return relu(b, x) if way == "relu" else gemm(b, x)
    if way == "relu":
        return relu(b, x)
    if way == "pool":
        return max_pool(b, x)
    if way == "classifier":
        b.say("gap")
        return gemm(b, flat(b, b.op("GlobalAveragePool", x)))
    if way == "flat_gemm":
        return gemm(b, flat(b, x))
    y = weighted(b, x)
    return relu(b, y) if way == "layer_relu" else y


def draw(random, number):
    family = FAMILIES[number % len(FAMILIES)]
    needs_image = family in (pad, mean, resize, rearrange)
    shape = (int(random.integers(3, 9)), int(random.integers(5, 13)), int(random.integers(5, 13)))
    if not needs_image and random.random() < 0.2:
        shape = (int(random.integers(4, 33)),)
    b = Builder(random, shape, 10 ** random.uniform(-3, 3))
    x = family(b, front(b, "x"))
    if b.chance(0.3):
        x = FAMILIES[random.integers(len(FAMILIES))](b, x)
    if len(b.shape(x)) == 3 or x == "x":
        x = relu(b, x)
    return b, back(b, x), family.__name__


def make_graph(seed, number):
    """The model, the model that ONNX Runtime's tool gets, the input on all samples, the family and a label."""
    for attempt in range(100):
        b, y, family = draw(numpy.random.default_rng([seed, number, attempt]), number)
        value = b.values[y]
        # A graph that gives 0 everywhere, or that outgrew the range, says nothing.
        largest = max(float(numpy.abs(v[numpy.abs(v) < 1e38]).max(initial=0)) for v in b.values.values()
                      if v.dtype == numpy.float32)
        if b.nodes and numpy.isfinite(value).all() and 1e-6 < numpy.abs(value).max() < 1e5 and largest < 1e5:
            return b.model(y), b.model(y, for_peer=True), b.values["x"], family, " > ".join(b.label)
    raise RuntimeError(f"graph {number} of seed {seed} cannot be drawn")
