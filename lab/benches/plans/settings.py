"""What is measured where nothing else is asked for."""

NETWORKS = ["squeezenet1_1", "mobilenet_v2", "resnet50", "resnet152", "densenet201", "vgg19"]

# Strategies, with the options of `eyelet plan` that ask for them. The first is what the others are held against.
JOINT = "joint"
STRATEGIES = {
    JOINT: ["--strategy", "joint"],
    "flexnn": ["--strategy", "flexnn"],
    "on-demand": ["--strategy", "on-demand"],
    "preload": ["--strategy", "preload"],
    "direct": ["--strategy", "direct"],
}

# FlexNN without its parts.
ABLATION = {
    "full": ["--strategy", "flexnn"],
    "no static plan": ["--strategy", "flexnn-dynamic"],
    "no preloading": ["--strategy", "flexnn-no-preload"],
    "neither": ["--strategy", "flexnn-dynamic-no-preload"],
}

# Budgets between the smallest feasible one (0) and one that holds everything (1), spaced geometrically; and the
# place of the ablation's between the smallest one for FlexNN and that.
PLACES = [0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0]
ABLATION_PLACE = 0.4

# How weights are read: past the page cache, and from there.
IO = ["direct", "buffered"]

# The machine is measured so often before all else, of which the middle one is planned with: `joint` in so many bytes tells which that is;
# and once more before a network's first round, after its last one, and every so many rounds between, for what is predicted of it.
PROFILES = 3
EVERY = 6
PROFILED = ("mobilenet_v2", 4 << 20)

# What others have disturbed: inferences beside which the speed probe was slower than so much of the highest rate that any profile has told so far,
# and profiles in which it was, or 1x1 convolutions were slower than so much of theirs.
QUIET = 0.95

# How often a plan's turn is taken at most, until one in so many inferences of the first, but so many at least, were undisturbed; with fewer the
# turn is a disturbed one. And how often a profile is measured at most.
TRIES = 3
ENOUGH = 3
FEWEST = 2
PROFILE_TRIES = 2

# What "as fast" means: the noise of two measurements of the same thing.
NOISE = 0.02

# Predictions that are drawn at random, and how near they shall be.
DRAWN = 20
NEAR = 0.10
SEED = 4
