"""Models of Diffusers for families.py: what denoises pictures, clips and sound, and autoencoders of them, as their configurations come but for fewer layers.

Of the parameters of its `forward` a model is given the first, those that MODELS or conditions() know, and no others.
"""
import argparse
import inspect

import torch

from zoo import DEVICE, noise

CAPTION = 256  # tokens of text
TEXT_WIDTHS = (  # under the names that configurations have for a token's, the first that is there
    "joint_attention_dim", "text_embed_dim", "text_dim", "caption_channels", "encoder_hid_dim", "cap_feat_dim", "in_text_dim", "context_in_dim", "text_in_dim",
    "cross_attention_input_dim", "cross_attention_dim",
)
LAYERS = 4, ["num_layers", "num_single_layers", "num_mmdit_layers", "num_single_dit_layers", "n_layers", "depth", "num_visual_blocks"]

# Shapes of what a model takes first; C stands for the channels of its configuration. Latents are those of pictures of 512 x 512 or 256 x 256, or of 17 frames of 240 x 416.
TOKENS = 2, 1024, "C"
LATENT = 4, "C", 64, 64
SMALL_LATENT = 8, "C", 32, 32
CLIP_LATENT = 1, "C", 5, 30, 52
PICTURE = 4, 3, 256, 256
CLIP = 1, 3, 9, 256, 256
STABLE_DIFFUSION = dict(
    block_out_channels=(128, 256, 512, 512), layers_per_block=2, down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4, sample_size=256
)
XL = dict(
    block_out_channels=(320, 640, 1280), cross_attention_dim=2048, transformer_layers_per_block=(1, 2, 10), attention_head_dim=(5, 10, 20), use_linear_projection=True,
    down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], up_block_types=["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
)
LATTE = dict(
    num_layers=4, in_channels=4, out_channels=8, patch_size=2, sample_size=32, cross_attention_dim=1152, attention_head_dim=72, attention_bias=True, activation_fn="gelu-approximate",
    num_embeds_ada_norm=1000, norm_type="ada_norm_single", norm_elementwise_affine=False, caption_channels=4096,
)

# A model: the shape of what it takes first, what of its configuration is told where the default is none or a toy's, and what it is given beside, by shapes or as it stands.
MODELS = {
    "AllegroTransformer3DModel": (CLIP_LATENT, {}),
    "AuraFlowTransformer2DModel": (LATENT, {}),
    "ChromaTransformer2DModel": (TOKENS, {}),
    "CogVideoXTransformer3DModel": ((1, 5, "C", 30, 52), dict(sample_width=52, sample_height=30, sample_frames=17, max_text_seq_length=CAPTION)),
    "CogView3PlusTransformer2DModel": (LATENT, {}),
    "CogView4Transformer2DModel": (LATENT, {}),
    "ControlNetModel": (LATENT, dict(cross_attention_dim=768), dict(controlnet_cond=(4, 3, 512, 512))),
    "CosmosTransformer3DModel": (CLIP_LATENT, {}, dict(padding_mask=(1, 1, 30, 52))),
    "DiTTransformer2DModel": (SMALL_LATENT, {}),
    "Flux2Transformer2DModel": (TOKENS, dict(num_attention_heads=24, joint_attention_dim=7680), dict(img_ids=(1024, 4), txt_ids=(CAPTION, 4))),
    "FluxTransformer2DModel": (TOKENS, dict(guidance_embeds=True)),
    "HunyuanVideoTransformer3DModel": (CLIP_LATENT, {}),
    "I2VGenXLUNet": ((1, "C", 8, 32, 32), {}, dict(image_latents=(1, 4, 8, 32, 32), image_embeddings=(1, 1024))),
    "Kandinsky3UNet": (LATENT, {}),
    "LTXVideoTransformer3DModel": ((1, 1950, "C"), {}, dict(num_frames=5, height=15, width=26)),
    "LatteTransformer3DModel": ((1, "C", 16, 32, 32), LATTE, dict(encoder_attention_mask=None)),
    "LongCatImageTransformer2DModel": (TOKENS, {}),
    "Lumina2Transformer2DModel": (LATENT, {}),
    "MochiTransformer3DModel": (CLIP_LATENT, {}),
    "MotifVideoTransformer3DModel": (CLIP_LATENT, {}),
    "OvisImageTransformer2DModel": (TOKENS, {}),
    "PRXTransformer2DModel": (LATENT, {}),
    "PixArtTransformer2DModel": (LATENT, dict(sample_size=64, caption_channels=4096)),
    "PriorTransformer": ((64, 768), {}, dict(proj_embedding=(64, 768), encoder_hidden_states=(64, 77, 768))),
    "QwenImageTransformer2DModel": (TOKENS, {}, dict(img_shapes=[[(1, 32, 32)]] * 2, guidance=None)),
    "SD3Transformer2DModel": (LATENT, {}),
    "SanaTransformer2DModel": ((4, "C", 32, 32), {}, dict(guidance=None)),
    "SanaVideoTransformer3DModel": (CLIP_LATENT, {}, dict(guidance=None)),
    "SkyReelsV2Transformer3DModel": (CLIP_LATENT, {}),
    "StableAudioDiTModel": ((2, "C", 1024), {}, dict(global_hidden_states=(2, 1, 1536), encoder_attention_mask=None)),
    "StableCascadeUNet": ((4, "C", 24, 24), dict(down_num_layers_per_block=(2, 2), up_num_layers_per_block=(2, 2), clip_text_in_channels=1280, clip_image_in_channels=768), dict(clip_text_pooled=(4, 1, 1280), clip_text=(4, 77, 1280), clip_img=(4, 1, 768))),
    "T2IAdapter": ((4, 3, 512, 512), {}),
    "UNet1DModel": ((4, 2, 65536), dict(extra_in_channels=64)),
    "UNet2DConditionModel": (LATENT, dict(cross_attention_dim=768)),
    "UNet2DConditionModel-XL": (LATENT, XL),
    "UNet2DModel": ((8, 3, 64, 64), {}),
    "UNet3DConditionModel": ((1, "C", 16, 32, 32), {}),
    "UNetSpatioTemporalConditionModel": ((1, 14, "C", 32, 32), {}, dict(encoder_hidden_states=(1, 1, 1024), added_time_ids=(1, 3))),
    "WanTransformer3DModel": (CLIP_LATENT, dict(num_attention_heads=12, ffn_dim=8960)),
    "WanVACETransformer3DModel": (CLIP_LATENT, dict(num_attention_heads=12, ffn_dim=8960, vace_layers=[0, 2]), dict(control_hidden_states=(1, 96, 5, 30, 52))),
    "AutoencoderDC": ((2, 3, 512, 512), {}),
    "AutoencoderKL": (PICTURE, STABLE_DIFFUSION),
    "AutoencoderKLCogVideoX": (CLIP, {}),
    "AutoencoderKLCosmos": (CLIP, {}),
    "AutoencoderKLFlux2": (PICTURE, {}),
    "AutoencoderKLHunyuanVideo": (CLIP, {}),
    "AutoencoderKLLTXVideo": (CLIP, {}),
    "AutoencoderKLMagvit": (CLIP, {}),
    "AutoencoderKLMochi": ((1, 3, 13, 256, 256), {}),
    "AutoencoderKLQwenImage": ((2, 3, 1, 256, 256), {}),
    "AutoencoderKLWan": (CLIP, {}),
    "AutoencoderOobleck": ((2, 2, 131072), {}),
    "AutoencoderTiny": (PICTURE, {}),
    "ConsistencyDecoderVAE": (PICTURE, {}),
    "VQModel": (PICTURE, dict(STABLE_DIFFUSION, norm_type="spatial")),
}


def configuration(model_class, told):
    """What `model_class` is made of, with few layers."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(model_class.__init__).parameters.items() if name != "self"}
    found = defaults | told
    most, names = LAYERS
    for name in names:
        if isinstance(found.get(name), int):
            found[name] = min(found[name], most)
    return found


def conditions(config, shape):
    """What models are told beside the noise that they remove, by the names of their parameters."""
    batch = shape[0]
    width = next((config[name] for name in TEXT_WIDTHS if isinstance(config.get(name), int)), None)
    picture = torch.full((batch, 2), 512., device=DEVICE)
    ones = torch.ones(batch, CAPTION, device=DEVICE, dtype=torch.int64)
    tokens = shape[1] if len(shape) == 3 else 0
    found = dict(
        timestep=torch.full((batch,), 500, device=DEVICE), timestep_ratio=torch.full((batch,), 0.5, device=DEVICE),
        encoder_attention_mask=ones, guidance=torch.full((batch,), 4., device=DEVICE),
        original_size=picture, target_size=picture, crop_coords=torch.zeros(batch, 2, device=DEVICE), fps=torch.full((batch,), 16, device=DEVICE),
        img_ids=torch.zeros(tokens, 3, device=DEVICE), txt_ids=torch.zeros(CAPTION, 3, device=DEVICE),
    )
    if width:
        found["encoder_hidden_states"] = noise(batch, CAPTION, width)
    if config.get("norm_type") == "ada_norm_zero":
        found["class_labels"] = torch.randint(0, config["num_embeds_ada_norm"], (batch,), device=DEVICE)
    if config.get("pooled_projection_dim"):
        found["pooled_projections"] = noise(batch, config["pooled_projection_dim"])
    return found


class Asked(torch.nn.Module):
    """A model that is asked as those of Transformers are, and gives one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.config = argparse.Namespace()  # where families.py says that no cache is kept

    def forward(self, **given):
        out = self.model(**given)
        while not torch.is_tensor(out):
            out = out[-1] if isinstance(out, list) else out[0]  # of features at several depths the deepest
        return [out]


def built(name):
    """The model of this name in MODELS and what it is given."""
    import diffusers  # asks for the GPU at once, and a process that has asked cannot be forked
    shape, told, *more = MODELS[name]
    model_class = getattr(diffusers, name.split("-")[0])
    config = configuration(model_class, told)
    with torch.device(DEVICE):
        model = model_class(**config).to(DEVICE)
    shape = [config["in_channels"] if size == "C" else size for size in shape]
    taken = list(inspect.signature(model.forward).parameters)
    given = {key: value for key, value in conditions(config, shape).items() if key in taken}
    given[taken[0]] = noise(*shape)
    for condition, value in (more[0] if more else {}).items():
        given[condition] = noise(*value) if isinstance(value, tuple) and isinstance(value[0], int) else value
    return Asked(model), given
