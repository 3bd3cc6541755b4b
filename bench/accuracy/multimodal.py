#!/usr/bin/env python3
"""Training steps of models that read more than text: images, documents, sound, proteins; one JSON line for each.

Transformers' own models with weights drawn at random, on one GPU; nothing here knows of a simulator.

Usage: multimodal.py [--only TEXT | --names NAME...] [--steps N] [--kernels FILE]   (as zoo.py)
"""
import torch
import transformers as hf

import zoo
from trainings import step_of
from zoo import DEVICE, noise

STEPS = {}


def multimodal(function):
    STEPS[function.__name__] = function
    return function


# Text models of about 0.3 billion parameters.
TEXT = dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=4)
VISION = dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)


def text_with(token, count, length, batch, at=5, below=1000):
    """Token ids of `batch` texts, `count` of each of which stand for what is no text."""
    ids = torch.randint(1, below, (batch, length))
    ids[:, at:at + count] = token
    return ids.to(DEVICE)


def trained(model, **inputs):
    """A step in bf16 by autocast; the loss is the model's own."""
    return step_of(model, lambda: model(**inputs).loss)


# --- Images and text ---

@multimodal
def llava_next():
    """Images in two halves beside a small whole, whose features' number hangs on their sizes."""
    model = hf.LlavaNextForConditionalGeneration(hf.LlavaNextConfig(
        text_config=hf.LlamaConfig(**TEXT, vocab_size=32064), image_token_index=32000,
        vision_config=hf.CLIPVisionConfig(**VISION, image_size=336, patch_size=14))).to(DEVICE)
    ids = text_with(32000, 576 + 24 * 49, 2048, 2)
    return trained(model, input_ids=ids, pixel_values=noise(2, 3, 3, 336, 336), image_sizes=torch.tensor([[336, 672]] * 2, device=DEVICE), labels=ids)


@multimodal
def qwen2_5_vl():
    """Images of any size as one sequence of patches, attention in windows by their lengths, places of three dimensions."""
    config = hf.Qwen2_5_VLConfig(
        text_config=dict(TEXT, vocab_size=152064, rope_scaling={"type": "mrope", "mrope_section": [8, 12, 12]}),
        vision_config=dict(depth=12, hidden_size=768, intermediate_size=2048, num_heads=12, out_hidden_size=1024, fullatt_block_indexes=[5, 11]))
    model = hf.Qwen2_5_VLForConditionalGeneration(config).to(DEVICE)
    grid = torch.tensor([[1, 46, 34], [1, 28, 60], [1, 36, 36]])
    ids = torch.randint(1, 1000, (3, 640))
    for row, count in enumerate((grid.prod(1) // 4).tolist()):
        ids[row, 4], ids[row, 5:5 + count], ids[row, 5 + count] = config.vision_start_token_id, config.image_token_id, config.vision_end_token_id
    return trained(model, input_ids=ids.to(DEVICE), pixel_values=noise(int(grid.prod(1).sum()), 3 * 2 * 14 * 14), image_grid_thw=grid.to(DEVICE),
                   mm_token_type_ids=(ids == config.image_token_id).long().to(DEVICE), labels=ids.to(DEVICE))


@multimodal
def gemma3_vision():
    """Windows of attention and whole ones in turn, both ways among an image's tokens."""
    config = hf.Gemma3Config(
        text_config=dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=4, num_key_value_heads=2, head_dim=256,
                         vocab_size=65536, sliding_window=512),
        vision_config=dict(VISION, image_size=448, patch_size=14), mm_tokens_per_image=256, image_token_index=65000)
    model = hf.Gemma3ForConditionalGeneration(config).to(DEVICE)
    ids = text_with(65000, 256, 1024, 4)
    return trained(model, input_ids=ids, pixel_values=noise(4, 3, 448, 448), token_type_ids=(ids == 65000).long(), labels=ids)


@multimodal
def paligemma():
    """What comes before the answer is seen both ways."""
    config = hf.PaliGemmaConfig(
        text_config=hf.GemmaConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=8, num_key_value_heads=1, head_dim=128,
                                   vocab_size=65536),
        vision_config=hf.SiglipVisionConfig(**VISION, image_size=224, patch_size=14, projection_dim=1024), image_token_index=65000, projection_dim=1024)
    model = hf.PaliGemmaForConditionalGeneration(config).to(DEVICE)
    ids = text_with(65000, 256, 384, 8, at=0)
    answers = torch.zeros(8, 384, dtype=torch.long, device=DEVICE)
    answers[:, 320:] = 1
    return trained(model, input_ids=ids, pixel_values=noise(8, 3, 224, 224), token_type_ids=answers, attention_mask=torch.ones_like(ids), labels=ids)


@multimodal
def smolvlm():
    """Several images of a text, their patches shuffled into fewer tokens."""
    config = hf.Idefics3Config(text_config=dict(TEXT, model_type="llama", vocab_size=49280, pad_token_id=0),
                               vision_config=dict(VISION, image_size=364, patch_size=14), image_token_id=49190, scale_factor=2)
    model = hf.Idefics3ForConditionalGeneration(config).to(DEVICE)
    ids = text_with(49190, 3 * 169, 768, 4)
    return trained(model, input_ids=ids, pixel_values=noise(4, 3, 3, 364, 364), attention_mask=torch.ones_like(ids), labels=ids)


@multimodal
def mllama():
    """Llama 3.2's: images in four tiles, which every fourth layer attends to."""
    config = hf.MllamaConfig(
        text_config=dict(TEXT, vocab_size=32256, cross_attention_layers=[3, 7, 11], pad_token_id=0),
        vision_config=dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=8, num_global_layers=2, attention_heads=12, image_size=336, patch_size=14,
                           max_num_tiles=4, vision_output_dim=1536, intermediate_layers_indices=[3], supported_aspect_ratios=[[1, 1], [1, 2], [2, 1], [2, 2]]))
    model = hf.MllamaForConditionalGeneration(config).to(DEVICE)
    ids = torch.randint(1, 1000, (2, 1024), device=DEVICE)
    ones = lambda *shape: torch.ones(*shape, dtype=torch.long, device=DEVICE)
    return trained(model, input_ids=ids, pixel_values=noise(2, 1, 4, 3, 336, 336), aspect_ratio_ids=4 * ones(2, 1), aspect_ratio_mask=ones(2, 1, 4),
                   cross_attention_mask=ones(2, 1024, 1, 4), attention_mask=ones(2, 1024), labels=ids)


@multimodal
def internvl():
    config = hf.InternVLConfig(text_config=dict(TEXT, model_type="qwen2", vocab_size=65536), image_token_id=65000,
                               vision_config=dict(VISION, image_size=[448, 448], patch_size=[14, 14]))
    model = hf.InternVLForConditionalGeneration(config).to(DEVICE)
    ids = text_with(65000, 2 * 256, 1024, 2)
    return trained(model, input_ids=ids, pixel_values=noise(4, 3, 448, 448), labels=ids)


@multimodal
def blip2():
    """Thirty-two queries look at an image for a language model that is not trained, as is the image's encoder."""
    config = hf.Blip2Config(
        vision_config=dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16, image_size=224, patch_size=14),
        qformer_config=dict(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, encoder_hidden_size=1024),
        text_config=dict(model_type="opt", hidden_size=1024, ffn_dim=4096, num_hidden_layers=12, num_attention_heads=16, vocab_size=50304, word_embed_proj_dim=1024),
        image_token_index=50300)
    model = hf.Blip2ForConditionalGeneration(config).to(DEVICE)
    for part in (model.vision_model, model.language_model):
        part.requires_grad_(False)
    ids = text_with(50300, 32, 96, 16, at=0)
    return trained(model, pixel_values=noise(16, 3, 224, 224), input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids)


@multimodal
def siglip():
    """Images and their captions, each pair a question of yes or no."""
    model = hf.SiglipModel(hf.SiglipConfig(
        text_config=dict(VISION, vocab_size=32000, max_position_embeddings=64, projection_size=768),
        vision_config=dict(VISION, image_size=256, patch_size=16))).to(DEVICE)
    return trained(model, input_ids=torch.randint(1, 1000, (64, 64), device=DEVICE), pixel_values=noise(64, 3, 256, 256), return_loss=True)


@multimodal
def handwriting():
    """TrOCR: an encoder of lines of handwriting, a decoder that reads them."""
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        hf.ViTConfig(**VISION, image_size=384), hf.TrOCRConfig(d_model=1024, decoder_layers=8, decoder_attention_heads=16, decoder_ffn_dim=4096, vocab_size=50265,
                                                               cross_attention_hidden_size=768))
    config.decoder_start_token_id, config.pad_token_id = 2, 1
    model = hf.VisionEncoderDecoderModel(config=config).to(DEVICE)
    return trained(model, pixel_values=noise(16, 3, 384, 384), labels=torch.randint(3, 1000, (16, 64), device=DEVICE))


@multimodal
def documents():
    """LayoutLMv3: words, where they stand on the page, and the page."""
    model = hf.LayoutLMv3ForTokenClassification(hf.LayoutLMv3Config(num_labels=7, max_position_embeddings=514)).to(DEVICE)
    corners = torch.randint(0, 500, (8, 512, 2))
    boxes = torch.cat((corners, corners + torch.randint(1, 500, (8, 512, 2))), -1).to(DEVICE)
    return trained(model, input_ids=torch.randint(3, 1000, (8, 512), device=DEVICE), bbox=boxes, pixel_values=noise(8, 3, 224, 224),
                   attention_mask=torch.ones(8, 512, dtype=torch.long, device=DEVICE), labels=torch.randint(0, 7, (8, 512), device=DEVICE))


# --- Sound ---

@multimodal
def qwen2_audio():
    """Half a minute of sound for a language model."""
    config = hf.Qwen2AudioConfig(
        text_config=dict(TEXT, model_type="qwen2", vocab_size=65536), audio_token_index=65000,
        audio_config=dict(model_type="qwen2_audio_encoder", d_model=768, encoder_layers=8, encoder_attention_heads=12, encoder_ffn_dim=3072, num_mel_bins=128))
    model = hf.Qwen2AudioForConditionalGeneration(config).to(DEVICE)
    ids = text_with(65000, 750, 1024, 2)
    return trained(model, input_ids=ids, input_features=noise(2, 128, 3000), feature_attention_mask=torch.ones(2, 3000, dtype=torch.long, device=DEVICE),
                   attention_mask=torch.ones_like(ids), labels=ids)


@multimodal
def speech_synthesis():
    """SpeechT5: text to spectrograms, with their after-net of convolutions."""
    model = hf.SpeechT5ForTextToSpeech(hf.SpeechT5Config(vocab_size=81)).to(DEVICE)
    return trained(model, input_ids=torch.randint(4, 80, (8, 160), device=DEVICE), attention_mask=torch.ones(8, 160, dtype=torch.long, device=DEVICE),
                   labels=noise(8, 800, 80), speaker_embeddings=noise(8, 512))


# --- Proteins ---

@multimodal
def proteins():
    """ESM-2: masked residues, and no residue is told by its place but by rotations."""
    model = hf.EsmForMaskedLM(hf.EsmConfig(vocab_size=33, pad_token_id=1, mask_token_id=32, hidden_size=960, intermediate_size=3840, num_hidden_layers=16,
                                           num_attention_heads=20, position_embedding_type="rotary", token_dropout=True, emb_layer_norm_before=False)).to(DEVICE)
    ids = torch.randint(4, 24, (8, 512))
    ids[torch.rand(8, 512) < 0.15] = 32
    ids = ids.to(DEVICE)
    return trained(model, input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.randint(4, 24, (8, 512), device=DEVICE))


if __name__ == "__main__":
    zoo.main(STEPS, lambda name: STEPS[name](), __doc__)
