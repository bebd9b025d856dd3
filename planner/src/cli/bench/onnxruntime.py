"""Runs a model with onnxruntime in turns, as `eyelet run --turns` does: model, threads, inputs as JSON."""

import json
import sys
import time

try:
    import numpy
    import onnxruntime
except ImportError as error:
    sys.exit(f"{error}: install it for this python3, as by `pip install onnxruntime`")

TYPES = {
    "tensor(float)": numpy.float32,
    "tensor(float16)": numpy.float16,
    "tensor(double)": numpy.float64,
    "tensor(int64)": numpy.int64,
    "tensor(int32)": numpy.int32,
    "tensor(int8)": numpy.int8,
    "tensor(uint8)": numpy.uint8,
    "tensor(bool)": numpy.bool_,
}

model, threads, inputs = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
wanted = {port.name: TYPES.get(port.type, numpy.float32) for port in session.get_inputs()}
random = numpy.random.default_rng(0)
feed = {
    port["name"]: random.standard_normal(port["shape"]).astype(wanted[port["name"]])
    for port in inputs
    if port["name"] in wanted
}
print("ready", flush=True)
for line in sys.stdin:
    latencies = []
    turn = time.perf_counter_ns()
    for _ in range(int(line)):
        start = time.perf_counter_ns()
        session.run(None, feed)
        latencies.append(time.perf_counter_ns() - start)
    print(time.perf_counter_ns() - turn, *latencies, flush=True)
print(json.dumps({"version": onnxruntime.__version__}))
