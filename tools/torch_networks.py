"""Networks that tools/torch_models.py exports: builders for those of torchvision, timm, transformers and ultralytics.

A builder makes a module and its inputs. Weights are random: no package downloads any. Batch norms have random
scales and shifts, and disturbed statistics of random images, so that activations keep their size through the whole
depth and none of the four vectors is trivial.
"""

import functools

import torch


class Pick(torch.nn.Module):
    """A model whose inputs are positional and whose outputs are tensors."""

    def __init__(self, model, names, pick):
        super().__init__()
        self.model, self.names, self.pick = model, names, pick

    def forward(self, *inputs):
        return self.pick(self.model(**dict(zip(self.names, inputs))))


def image(side, batch, generator):
    """Noise with the falling spectrum of photographs, standardised."""
    height, width = (side, side) if isinstance(side, int) else side
    planes = sum(
        torch.nn.functional.interpolate(
            torch.randn(batch, 3, max(2, height >> octave), max(2, width >> octave), generator=generator),
            (height, width),
            mode="bilinear",
        )
        for octave in range(6)
    )
    return (planes - planes.mean()) / planes.std()


def calibrate(model, inputs, generator):
    """Draws the batch norms' scales and shifts, takes their statistics from inputs and disturbs them."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if norms:
        for norm in norms:
            norm.momentum = None  # cumulative average
        model.train()
        with torch.no_grad():
            for norm in norms:
                norm.weight.mul_(0.7 + 0.6 * torch.rand(norm.weight.shape, generator=generator))
                norm.bias.add_(0.2 * torch.randn(norm.bias.shape, generator=generator))
            for _ in range(2):
                model(*inputs())
            for norm in norms:
                shape = norm.running_mean.shape
                norm.running_mean += 0.1 * norm.running_var.sqrt() * torch.randn(shape, generator=generator)
                norm.running_var *= 0.8 + 0.45 * torch.rand(shape, generator=generator)
    model.eval()


def of_images(model, side, generator):
    """A module that takes one image, with calibrated batch norms."""
    calibrate(model, lambda: (image(side, 4, generator),), generator)
    return model, {"input": image(side, 1, generator)}


def torchvision_model(name, side, options, generator):
    import torchvision

    return of_images(getattr(torchvision.models, name)(weights=None, **options), side, generator)


def segmentation(name, port, side, generator):
    """One of torchvision's networks that label pixels; its dictionary's one entry is the output."""
    import torchvision

    build = getattr(torchvision.models.segmentation, name)
    model = Pick(build(weights=None, weights_backbone=None), [port], lambda found: found["out"])
    return of_images(model, side, generator)


def raft(generator):
    """Optical flow between two images; the last of its estimates."""
    import torchvision

    names, side = ["image1", "image2"], (128, 160)
    model = torchvision.models.optical_flow.raft_small(weights=None)
    model = Pick(Updates(model, 4), names, lambda flows: flows[-1])
    calibrate(model, lambda: (image(side, 2, generator), image(side, 2, generator)), generator)
    return model, {name: image(side, 1, generator) for name in names}


class Updates(torch.nn.Module):
    """A recurrent estimate with so many updates."""

    def __init__(self, model, updates):
        super().__init__()
        self.model, self.updates = model, updates

    def forward(self, image1, image2):
        return self.model(image1, image2, num_flow_updates=self.updates)


def timm_model(name, side, options, generator):
    import timm

    return of_images(timm.create_model(name, pretrained=False, **options), side, generator)


def yolo(name, side, generator):
    """A detector, or one that cuts out instances: boxes, and masks."""
    from ultralytics import YOLO

    model = YOLO(f"{name}.yaml").model.float()
    model, inputs = of_images(model, side, generator)
    head = model.model[-1]
    head.export, head.format = True, "onnx"
    for module in model.modules():
        if type(module).__name__ == "C2f":
            module.forward = module.forward_split
    return model, inputs


def bert(generator):
    """The encoder of all-MiniLM-L6-v2, and the mean of its states that the mask keeps."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, attn_implementation="eager"
    )
    names = ["input_ids", "attention_mask"]
    mask = torch.ones(1, 64, dtype=torch.int64)
    mask[:, 50:] = 0
    model = Pick(BertModel(config), names, lambda found: found.last_hidden_state)
    ids = torch.randint(0, config.vocab_size, (1, 64), generator=generator)
    return model.eval(), {"input_ids": ids, "attention_mask": mask}


def segformer(generator):
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    model = SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))
    return of_images(Pick(model, ["pixel_values"], lambda found: found.logits), 256, generator)


def depth_anything(generator):
    """The small one: DINOv2-S, and a head that joins four of its layers."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    layers = [3, 6, 9, 12]
    backbone = Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, out_indices=layers,
        apply_layernorm=True, reshape_hidden_states=False,
    )  # fmt: skip
    config = DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64
    )
    model = DepthAnythingForDepthEstimation(config)
    return of_images(Pick(model, ["pixel_values"], lambda found: found.predicted_depth), 224, generator)


def whisper(generator):
    """The encoder of whisper-tiny, for 30 seconds of mel bands."""
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, d_model=384)
    model = WhisperModel(config).encoder
    model = Pick(model, ["input_features"], lambda found: found.last_hidden_state)
    return model.eval(), {"input_features": torch.randn(1, 80, 3000, generator=generator)}


def vision(name, side=224, **options):
    return functools.partial(torchvision_model, name, side, options)


def of_timm(name, side, **options):
    return functools.partial(timm_model, name, side, options)


NO_AUXILIARY = {"aux_logits": False, "init_weights": False}
# These are exported by every exporter and operator set, for the patterns that exporters make.
CLASSIFIERS = {
    "resnet18": vision("resnet18"),
    "alexnet": vision("alexnet"),
    "densenet121": vision("densenet121"),
    "googlenet": vision("googlenet", **NO_AUXILIARY),
    "inception_v3": vision("inception_v3", 299, **NO_AUXILIARY),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"),
    "efficientnet_b0": vision("efficientnet_b0", stochastic_depth_prob=0.0),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "squeezenet1_1": vision("squeezenet1_1"),
}
# These by one exporter of each kind.
OTHERS = {
    "swin_t": vision("swin_t"),
    "maxvit_t": vision("maxvit_t"),
    "raft_small": raft,
    "lraspp_mobilenet_v3_large": functools.partial(segmentation, "lraspp_mobilenet_v3_large", "input", 224),
    "mobilevit_s": of_timm("mobilevit_s", 256),
    "edgenext_small": of_timm("edgenext_small", 256),
    "dinov2_s": of_timm("vit_small_patch14_dinov2", 224, img_size=224, init_values=1.0),
    "yolov8n": functools.partial(yolo, "yolov8n", 320),
    "yolov8n-seg": functools.partial(yolo, "yolov8n-seg", 320),
    "yolo11n": functools.partial(yolo, "yolo11n", 320),
    "yolo11n-seg": functools.partial(yolo, "yolo11n-seg", 320),
    "minilm_l6": bert,
    "segformer_b0": segformer,
    "depth_anything_s": depth_anything,
    "whisper_tiny_encoder": whisper,
}
