"""Some inferences of a network with ncnn, inside the emulator: ncnn_guest.py NETWORK SHAPE INFERENCES"""
import sys

import ncnn
import numpy

model, shape, inferences = sys.argv[1], tuple(map(int, sys.argv[2].split(","))), int(sys.argv[3])
net = ncnn.Net()
net.opt.num_threads = 1
net.opt.lightmode = True
for option in dir(net.opt):
    # 32-bit floats throughout, as eyelet.
    if option.startswith(("use_fp16_", "use_bf16_", "use_int8_", "use_vulkan_compute")):
        setattr(net.opt, option, False)
if net.load_param(model + ".param") != 0 or net.load_model(model + ".bin") != 0:
    sys.exit("the network cannot be loaded")
source, target = net.input_names()[0], net.output_names()[0]
image = numpy.random.default_rng(1).standard_normal(shape[1:], dtype=numpy.float32)
for _ in range(inferences):
    extractor = net.create_extractor()
    extractor.input(source, ncnn.Mat(image))
    status, output = extractor.extract(target)
    if status != 0:
        sys.exit(f"extract: {status}")
