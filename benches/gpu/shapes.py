"""The convolutions of networks, batch 1: what the kernels are measured on.

Fully connected layers are convolutions of one pixel. A shape that occurs several times, in one network or in several,
is measured once; `count` says how often each network has it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Shape:
    """A convolution: input of height x width pixels, square kernel."""

    height: int
    width: int
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    groups: int = 1

    @property
    def output(self):
        """Height and width of the output."""

        def extent(size):
            return (size + 2 * self.pad - self.kernel) // self.stride + 1

        return extent(self.height), extent(self.width)

    @property
    def macs(self):
        """Multiply-accumulates."""
        height, width = self.output
        taps = self.kernel * self.kernel * self.inputs // self.groups
        return height * width * self.outputs * taps

    @property
    def name(self):
        """Input, kernel and output, as in `56x56x64 3x3/1 64`."""
        groups = f" g{self.groups}" if self.groups > 1 else ""
        size = f"{self.height}x{self.width}x{self.inputs}"
        return f"{size} {self.kernel}x{self.kernel}/{self.stride} {self.outputs}{groups}"

    def line(self):
        """As the bench binary reads it."""
        fields = (self.height, self.width, self.inputs, self.outputs, self.kernel, self.stride, self.pad, self.groups)
        return " ".join(map(str, fields))


class Net:
    """Collects convolutions while an image runs through them."""

    def __init__(self, size, channels=3):
        self.size, self.channels = size, channels
        self.shapes = []

    def conv(self, outputs, kernel=1, stride=1, inputs=None, pad=None):
        """A convolution of the image; its output is the image then."""
        pad = kernel // 2 if pad is None else pad
        inputs = self.channels if inputs is None else inputs
        shape = Shape(self.size, self.size, inputs, outputs, kernel, stride, pad)
        self.shapes.append(shape)
        self.size, self.channels = shape.output[0], outputs
        return self

    def side(self, outputs, kernel=1, stride=1, inputs=None):
        """A convolution beside the main path: the image stays."""
        size, channels = self.size, self.channels
        self.conv(outputs, kernel, stride, inputs)
        self.size, self.channels = size, channels
        return self

    def dense(self, inputs, outputs):
        """A fully connected layer."""
        self.shapes.append(Shape(1, 1, inputs, outputs))
        return self


def resnet(depths):
    """Residual networks of bottlenecks, with the stride at the 3x3 convolutions as in torchvision."""
    net = Net(224).conv(64, 7, 2)
    net.size //= 2
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for block in range(depth):
            stride = 2 if block == 0 and stage > 0 else 1
            if block == 0:
                net.side(4 * width, 1, stride)
            net.conv(width).conv(width, 3, stride).conv(4 * width)
    return net.dense(2048, 1000)


def vgg19():
    """Sixteen 3x3 convolutions and three fully connected layers."""
    net = Net(224)
    for width, depth in [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)]:
        for _ in range(depth):
            net.conv(width, 3)
        net.size //= 2
    return net.dense(512 * 7 * 7, 4096).dense(4096, 4096).dense(4096, 1000)


def pairs(net, width, depth):
    """1x1 to `width` channels, 3x3 to twice as many, in turns."""
    for index in range(depth):
        net.conv(width) if index % 2 == 0 else net.conv(2 * width, 3)
    return net


def yolov3(size=416):
    """Darknet-53 and three heads, each of which ends in 255 channels."""
    net = Net(size).conv(32, 3)
    for width, depth in [(32, 1), (64, 2), (128, 8), (256, 8), (512, 4)]:
        net.conv(2 * width, 3, 2)
        pairs(net, width, 2 * depth)
    for width, joined in [(512, 1024), (256, 768), (128, 384)]:
        net.channels = joined
        # The fifth of them goes on to the next head, the sixth to this one's end.
        pairs(net, width, 5)
        net.side(2 * width, 3)
        net.side(255, 1, 1, 2 * width)
        if width > 128:
            net.conv(width // 2)
            net.size *= 2
    return net


def yolov4(size=416):
    """CSPDarknet-53, pyramid pooling, a path up and down, and three heads."""
    net = Net(size).conv(32, 3)
    for width, inner, depth in [(64, 64, 1), (128, 64, 2), (256, 128, 8), (512, 256, 8), (1024, 512, 4)]:
        net.conv(width, 3, 2)
        net.side(inner)
        net.conv(inner)
        for _ in range(depth):
            net.conv(inner // 2 if depth == 1 else inner).conv(inner, 3)
        net.conv(inner)
        net.channels = 2 * inner
        net.conv(width)
    net.conv(512).conv(1024, 3).conv(512)
    net.channels = 4 * 512
    net.conv(512).conv(1024, 3).conv(512)
    for width, beside in [(256, 512), (128, 256)]:
        net.conv(width)
        net.size *= 2
        net.side(width, inputs=beside)
        net.channels = 2 * width
        pairs(net, width, 5)
    for width in (128, 256, 512):
        net.side(2 * width, 3)
        net.side(255, 1, 1, 2 * width)
        if width < 512:
            net.conv(2 * width, 3, 2)
            net.channels = 4 * width
            pairs(net, 2 * width, 5)
    return net


NETWORKS = {
    "resnet50": lambda: resnet((3, 4, 6, 3)),
    "resnet152": lambda: resnet((3, 8, 36, 3)),
    "vgg19": vgg19,
    "yolov3": yolov3,
    "yolov4": yolov4,
}

# A dry run's: one of each sort that takes the emulation a moment.
TINY = [
    Shape(6, 6, 8, 40, 1),
    Shape(9, 7, 4, 33, 3, 1, 1),
    Shape(8, 8, 16, 32, 3, 2, 1),
    Shape(1, 1, 96, 70),
]


def networks():
    """The convolutions of each network, in order."""
    return {name: make().shapes for name, make in NETWORKS.items()}


def unique(shapes_of):
    """How often each network has each shape; the shapes in the order of their first occurrence."""
    counts = {}
    for name, shapes in shapes_of.items():
        for shape in shapes:
            of = counts.setdefault(shape, {})
            of[name] = of.get(name, 0) + 1
    return counts
