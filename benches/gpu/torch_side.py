"""PyTorch's side: the same convolutions and the same network, 32-bit floats without TF32, algorithms searched for."""

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = torch.device("cuda")


def set_up():
    """fp32 means fp32, and cuDNN tries all it has."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    torch.manual_seed(1)


def facts():
    """What this side is."""
    return {
        "PyTorch": torch.__version__,
        "CUDA of PyTorch": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version(),
    }


def captured(function, count):
    """A CUDA graph of so many calls: no launch waits for Python."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            function()
    return graph


def timer(function):
    """Microseconds of one call in each of so many rounds of so many calls, captured."""
    graphs = {}

    def time(rounds, launches):
        if launches not in graphs:
            graphs[launches] = captured(function, launches)
            graphs[launches].replay()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(rounds):
            start.record()
            graphs[launches].replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / launches)
        return times

    return time


def convolution(shape):
    """Timers of a shape: cuDNN in both memory formats; as a matrix product where it is one. Without bias, which cuDNN
    through PyTorch adds in a kernel of its own."""
    x = torch.randn(1, shape.inputs, shape.height, shape.width, device=DEVICE)
    w = torch.randn(shape.outputs, shape.inputs // shape.groups, shape.kernel, shape.kernel, device=DEVICE)
    timers = {}
    for name, form in [("cudnn nchw", torch.contiguous_format), ("cudnn nhwc", torch.channels_last)]:
        a, b = x.contiguous(memory_format=form), w.contiguous(memory_format=form)
        timers[name] = timer(lambda a=a, b=b: F.conv2d(a, b, None, shape.stride, shape.pad, 1, shape.groups))
    if shape.kernel == 1 and shape.stride == 1 and shape.pad == 0 and shape.groups == 1:
        pixels, channels = shape.height * shape.width, shape.inputs
        rows, columns = torch.randn(pixels, channels, device=DEVICE), torch.randn(channels, shape.outputs, device=DEVICE)
        timers["cublas"] = timer(lambda: torch.mm(rows, columns))
        turned = columns.t().contiguous()
        timers["cublas linear"] = timer(lambda: F.linear(rows, turned))
    return timers


class Bottleneck(nn.Module):
    """As in torchvision: the stride is at the 3x3 convolution."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width

        def conv(i, o, kernel, stride=1):
            return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o))

        self.main = nn.Sequential(
            conv(inputs, width, 1),
            nn.ReLU(inplace=True),
            conv(width, width, 3, stride),
            nn.ReLU(inplace=True),
            conv(width, outputs, 1),
        )
        self.side = nn.Identity() if stride == 1 and inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x):
        return F.relu_(self.main(x) + self.side(x))


def resnet(depths):
    """A residual network of bottlenecks for 1000 classes."""
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Bottleneck(channels, 64 << stage, 2 if block == 0 and stage > 0 else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet152": (3, 8, 36, 3)}


class Network:
    """A network of batch 1: eager and as a CUDA graph, with batch norms folded and not, in both memory formats."""

    def __init__(self, name):
        self.ways = {}
        for folded in (False, True):
            for form in (torch.contiguous_format, torch.channels_last):
                model = resnet(DEPTHS[name]).eval()
                if folded:
                    fold(model)
                model = model.to(DEVICE).to(memory_format=form)
                x = torch.randn(1, 3, 224, 224, device=DEVICE).contiguous(memory_format=form)
                layout = "nhwc" if form is torch.channels_last else "nchw"
                norms = ", batch norms folded" if folded else ""
                self.ways[f"eager, {layout}{norms}"] = lambda model=model, x=x: model(x)
                self.ways[f"CUDA graph, {layout}{norms}"] = captured(lambda model=model, x=x: model(x), 1).replay

    def time(self, runs, warmup):
        """Milliseconds of inferences, each waited for, by the way."""
        import time

        times = {}
        for way, run in self.ways.items():
            times[way] = []
            for number in range(warmup + runs):
                torch.cuda.synchronize()
                start = time.perf_counter()
                run()
                torch.cuda.synchronize()
                if number >= warmup:
                    times[way].append((time.perf_counter() - start) * 1e3)
        return times


def fold(model):
    """Batch norms become part of the convolutions before them."""
    for module in list(model.modules()):
        if isinstance(module, nn.Sequential):
            for index in range(len(module) - 1):
                if isinstance(module[index], nn.Conv2d) and isinstance(module[index + 1], nn.BatchNorm2d):
                    module[index] = torch.nn.utils.fuse_conv_bn_eval(module[index], module[index + 1])
                    module[index + 1] = nn.Identity()
