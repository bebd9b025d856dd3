"""What is measured, and for how long."""

# Networks whose delay and memory are measured; those of the paper that the zoo has come first.
LATENCY = "resnet152"
LAYERING = ("resnet152", "densenet201", "vgg19", "resnext101_32x8d")
# A dry run's.
TINY_LATENCY = "squeezenet1_1"
TINY_LAYERING = ("squeezenet1_1",)

# The strategies of Demand Layering, in the order of its table, and eyelet's own.
STRATEGIES = ("demand-seq", "demand-sync", "demand-async", "demand-async-md", "demand-2s", "demand-2s-md", "joint")
# More than any network takes: what a strategy of Demand Layering takes is its own affair, not the budget's.
PLENTY = "8GiB"
# In whose memory `joint` is measured besides: with plenty it holds all weights.
FAIR = "demand-async-md"
IO = ("buffered", "direct")

BOARD = "gpu-host"

# Turns that both sides take, in each of which so many rounds are measured; a round is as many convolutions as take about
# so many microseconds.
TURNS = 5
ROUNDS = 5
ROUND_US = 1000
# Inferences in a turn, and before the first.
RUNS = 20
WARMUP = 5
# The same for Demand Layering, where an inference may read all of a network from a disk.
LAYERING_RUNS = 8
LAYERING_WARMUP = 2

# What the issue asks for: the mean over all shapes, and the worst shape.
MEAN_WANTED = 0.8
LEAST_WANTED = 0.5
