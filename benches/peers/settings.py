"""What is measured where nothing else is asked for."""

NETWORKS = [
    "squeezenet1_1",
    "mobilenet_v2",
    "resnet50",
    "resnet152",
    "vgg19",
    "densenet201",
    "resnext101_32x8d",
    "vit_b_16",
    "gpt2",
]

# Networks of the comparison on an unsteady machine.
UNSTEADY = [
    "squeezenet1_1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
    "vgg19",
    "densenet201",
    "resnext101_32x8d",
    "vit_b_16",
]

# Turns in which both engines time their layers, and sums of this many products that are listed apart.
LAYER_TURNS = 3
LONG_SUM = 768

# Budgets of the table of memory, in MiB.
BUDGETS = {
    "squeezenet1_1": [6],
    "mobilenet_v2": [8],
    "resnet18": [12],
    "resnet50": [12, 24],
    "resnet152": [12, 24, 48],
    "vgg19": [32, 64],
    "densenet201": [12, 24],
    "resnext101_32x8d": [48],
    "vit_b_16": [48],
    "gpt2": [64],
}

# Networks that are also measured on a busy machine, and loops that keep each of its cores busy.
BUSY = ["squeezenet1_1", "resnet50"]
BUSY_LOOPS_PER_CORE = 4

# Networks that read tokens, and how many there are.
VOCABULARY = {"gpt2": 50_257}

# Relative to the largest magnitude of onnxruntime's output.
TOLERANCE = 1e-3

# What eyelet's peak memory should not exceed, relative to its weights as packed and its activations.
MEMORY_RATIO = 1.1

RUN_SECONDS = 300
