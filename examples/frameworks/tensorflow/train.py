"""Keras on TensorFlow, on all GPUs of the program: data parallelism by tf.distribute.MirroredStrategy where there are several.

    train.py [--model transformer|resnet50] [--steps N] [--batch N] [--bf16] [--compile]

One process drives all the GPUs that it sees (phantora run --per run).
"""
import argparse
import os
import sysconfig
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", choices=["transformer", "resnet50"], default="transformer")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=16, help="of each GPU")
parser.add_argument("--bf16", action="store_true", help="Keras's mixed_bfloat16")
parser.add_argument("--compile", action="store_true", help="by XLA (jit_compile)")
options = parser.parse_args()

# TensorFlow's own allocator cuts tensors out of one region, to whose end a simulated kernel that stores at places hanging on
# data may have written. Its table of the pieces of an H200 takes 4.6 GB of the host, too.
os.environ.setdefault("TF_GPU_ALLOCATOR", "cuda_malloc_async")
# TensorFlow looks for ptxas, which compiles what XLA and its own kernels are written in, in PATH alone.
os.environ["PATH"] += f":{sysconfig.get_path('purelib')}/nvidia/cuda_nvcc/bin"

import tensorflow as tf
from tensorflow import keras

VOCABULARY, TOKENS, WIDTH, HEADS, LAYERS, CLASSES = 16384, 512, 768, 12, 6, 1000


def transformer():
    tokens = keras.Input((TOKENS,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(tokens)
    for _ in range(LAYERS):
        normed = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(normed, normed, use_causal_mask=True)
        hidden = keras.layers.Dense(4 * WIDTH, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(WIDTH)(hidden)
    return keras.Model(tokens, keras.layers.Dense(VOCABULARY, dtype="float32")(keras.layers.LayerNormalization()(x)))


def batch(size):
    with tf.device("CPU"):
        if options.model == "resnet50":
            return tf.random.normal((size, 224, 224, 3)), tf.random.uniform((size,), 0, CLASSES, tf.int32)
        tokens = tf.random.uniform((size, TOKENS), 0, VOCABULARY, tf.int32)
        return tokens, tokens


class Clock(keras.callbacks.Callback):
    def on_train_batch_begin(self, number, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, number, logs=None):
        taken = time.perf_counter() - self.began
        print(f"step {number}: {1e3 * taken:.3f} ms, {options.batch * GPUS / taken:.0f} examples/s on {GPUS} GPUs",
              flush=True)


if options.bf16:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
GPUS = len(tf.config.list_physical_devices("GPU"))
strategy = tf.distribute.MirroredStrategy() if GPUS > 1 else tf.distribute.get_strategy()  # XLA compiles no mirrored step
with strategy.scope():
    model = transformer() if options.model == "transformer" else keras.applications.ResNet50(weights=None, classes=CLASSES)
    model.compile(optimizer="adam", jit_compile=options.compile,
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=options.model == "transformer"))
data = tf.data.Dataset.from_tensors(batch(options.batch * GPUS)).repeat()
model.fit(data, steps_per_epoch=options.steps, verbose=0, callbacks=[Clock()])
