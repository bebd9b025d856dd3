"""Runs one engine with a Python package once, in this process alone, and prints one line of JSON.

    peer.py ENGINE MODEL INPUT.npy OUTPUT.f32 THREADS WARMUP RUNS [PROFILE]

The time of an inference is from the input as 32-bit floats (NCHW) or tokens, in memory that the engine may read, to
the output as 32-bit floats. What an engine needs beyond that (conversion to its own layout) is its time, as it
is eyelet's. Everything computes in 32 bits: options that would lower that are switched off.

Memory is what the kernel counts (VmHWM), and what of it was there before the engine's package was
imported: the interpreter and numpy.

With PROFILE, onnxruntime writes the time of each of its nodes to PROFILE_DATE.json, which costs time itself.
"""

import json
import sys
import time

import numpy


def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def tokens_as(kind, image):
    """That type for tokens, of engines that have no integers of 64 bits; floats stay as they are."""
    return kind if image.dtype.kind == "i" else image.dtype


def onnxruntime(model, image, threads, profile=None):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: image}
    return lambda: session.run(None, feed)[0]


def openvino(model, image, threads):
    import openvino as ov

    core = ov.Core()
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    # The engine reads this memory in place.
    request.set_input_tensor(ov.Tensor(image, shared_memory=True))

    def infer():
        request.infer()
        return request.get_output_tensor(0).data

    return infer


def ncnn(model, image, threads):
    import ncnn as library

    net = library.Net()
    net.opt.num_threads = threads
    # Weights are held once only: packed as the kernels want them.
    net.opt.lightmode = True
    lower = ("use_fp16_", "use_bf16_", "use_int8_", "use_vulkan_compute")
    for option in dir(net.opt):
        if option.startswith(lower):
            setattr(net.opt, option, False)
    if net.load_param(model + ".param") != 0 or net.load_model(model + ".bin") != 0:
        raise RuntimeError("the network cannot be loaded")
    source, target = net.input_names()[0], net.output_names()[0]
    # Its matrices have no batch.
    plane = numpy.ascontiguousarray(image[0], tokens_as(numpy.int32, image))

    def infer():
        extractor = net.create_extractor()
        extractor.input(source, library.Mat(plane))
        status, output = extractor.extract(target)
        if status != 0:
            raise RuntimeError(f"extract: {status}")
        return numpy.array(output)

    return infer


def mnn(model, image, threads):
    import MNN

    interpreter = MNN.Interpreter(model)
    session = interpreter.createSession(
        {"backend": "CPU", "numThread": threads, "precision": "high"}
    )
    target = interpreter.getSessionInput(session)
    image = image.astype(tokens_as(numpy.int32, image))
    kind = MNN.Halide_Type_Int if image.dtype.kind == "i" else MNN.Halide_Type_Float
    source = MNN.Tensor(image.shape, kind, image, MNN.Tensor_DimensionType_Caffe)
    output = interpreter.getSessionOutput(session)
    # It copies the array that it is made of, and hands out views that do not keep it alive.
    shape = output.getShape()
    result = MNN.Tensor(
        shape,
        MNN.Halide_Type_Float,
        numpy.zeros(shape, numpy.float32),
        MNN.Tensor_DimensionType_Caffe,
    )

    def infer():
        target.copyFrom(source)
        interpreter.runSession(session)
        output.copyToHostTensor(result)
        return result.getNumpyData()

    return infer


ENGINES = {"onnxruntime": onnxruntime, "openvino": openvino, "ncnn": ncnn, "mnn": mnn}


def main(engine, model, image, output, threads, warmup, runs, *profile):
    image = numpy.load(image)
    # Floats, or tokens.
    kind = numpy.int64 if image.dtype.kind == "i" else numpy.float32
    image = numpy.ascontiguousarray(image, kind)
    before = status_bytes("VmRSS")
    start = time.perf_counter()
    infer = ENGINES[engine](model, image, int(threads), *profile)
    open_ms = (time.perf_counter() - start) * 1e3
    for _ in range(int(warmup)):
        infer()
    samples = []
    for _ in range(int(runs)):
        start = time.perf_counter()
        infer()
        samples.append((time.perf_counter() - start) * 1e3)
    # The peak is that of the inferences, and not of what follows for the comparison.
    peak = status_bytes("VmHWM")
    numpy.ascontiguousarray(infer(), numpy.float32).tofile(output)
    report = {
        "samples_ms": samples,
        "open_ms": open_ms,
        "peak_rss_bytes": peak,
        "rss_before_bytes": before,
    }
    # Engines print to standard output too: the report is its last line.
    print("\n" + json.dumps(report), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
