#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <array>

/// FSDP2's copies between its parameters and the buffers of its collectives: torch._chunk_cat and
/// torch.split_with_sizes_copy (ATen/native/cuda/TensorShape.cu). Their addresses and sizes lie in
/// tables in device memory, which are on their way when the kernels are launched: what is moved is
/// told by the parameters, where to by the tables when the kernel's turn has come.
namespace phantora::rank {

namespace {

/// The 64-bit numbers of a table; empty when one of them is not known.
std::vector<std::int64_t> table(const Image& image) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < image.extent(); at += 8) {
    const auto number = image.load(at, ElementType::int64);
    if (!number) return {};
    numbers.push_back(number->to_integer());
  }
  return numbers;
}

std::byte* address(std::int64_t number) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(number));
}

/// Whether `bytes` at `address` lie in one allocation: what tables say is not believed otherwise.
bool is_allocated(const std::byte* address, std::int64_t bytes) {
  const auto allocation = allocation_of(address);
  if (!allocation || bytes < 0) return false;
  return static_cast<std::size_t>(bytes) <=
         allocation->size - static_cast<std::size_t>(address - allocation->base);
}

/// Tables of `length` entries each, one after the other at the `parameters` that begin them.
/// They are packed into one tensor, so that the distance of two neighbours tells their length.
std::optional<std::size_t> length_of_tables(const Arguments& a, std::size_t parameter,
                                            std::size_t next) {
  const auto bytes = static_cast<std::size_t>(a.pointer(next) - a.pointer(parameter));
  if (bytes == 0 || bytes % 8 != 0 || bytes > small_bytes) return std::nullopt;
  return bytes / 8;
}

Effect of_tables(const Arguments& a, std::initializer_list<std::size_t> parameters,
                 std::size_t length) {
  Effect effect;
  for (const std::size_t p : parameters) {
    effect.operands.push_back({a.pointer(p), length * 8, true, false});
  }
  effect.needs = Effect::Needs::nothing;  // that nothing is known of the tables is told
  return effect;
}

/// The tables of a kernel, entry by entry; empty when something of them is not known.
std::vector<std::vector<std::int64_t>> tables(std::span<const Image> images, const char* kernel) {
  std::vector<std::vector<std::int64_t>> all;
  for (const Image& image : images) {
    all.push_back(table(image));
    if (all.back().empty()) {
      warn_once(kernel, std::string{"the tables of "} + kernel +
                            " are too large to be kept: what it copies to stays as it was");
      return {};
    }
  }
  return all;
}

/// (destinations, sources, bytes of a chunk of each split, ..., ..., bytes from a source's chunk to
/// the next, chunks). The splits make up the source.
std::optional<Effect> split(const Arguments& a) {
  const auto splits = length_of_tables(a, 0, 1);
  const auto stride = a.get<std::int64_t>(5), chunks = a.get<std::int64_t>(6);
  if (!splits || length_of_tables(a, 1, 2) != splits || stride < 0 || chunks < 0) {
    return std::nullopt;
  }
  Effect effect = of_tables(a, {0, 1, 2}, *splits);
  const double bytes = static_cast<double>(stride) * static_cast<double>(chunks);
  effect.bytes = 2 * bytes;
  effect.features.emplace_back("numel", bytes);
  effect.compute = [=](std::span<Image> images) {
    const auto known = tables(images, "split_with_sizes_copy");
    if (known.empty()) return;
    for (std::size_t s = 0; s < *splits; ++s) {
      std::byte* const to = address(known[0][s]);
      std::byte* const from = address(known[1][s]);
      const std::int64_t size = known[2][s];
      if (chunks == 0 || !is_allocated(to, size * chunks) ||
          !is_allocated(from, stride * (chunks - 1) + size)) {
        continue;
      }
      for (std::int64_t c = 0; c < chunks; ++c) {
        rank::copy(to + c * size, from + c * stride, static_cast<std::size_t>(size));
      }
    }
  };
  return effect;
}

/// Copies `count` elements and converts them on the way. Large ones become unknown.
void convert(std::byte* to, ElementType type, std::byte* from, ElementType source_type,
             std::size_t count) {
  const std::size_t size = size_of(type), source_size = size_of(source_type);
  if (count * size > small_bytes || !may_know(from, count * source_size)) {
    return rank::forget(to, count * size);
  }
  const Image source{{from, count * source_size, true, false}};
  Image result{{to, count * size, false, true}};
  for (std::size_t i = 0; i < count; ++i) {
    result.store(i * size, type, source.load(i * source_size, source_type));
  }
  result.commit(to, {});
}

/// (sources, destination, ..., where each tensor begins in a chunk, ..., bytes of each tensor in a
/// slice, of each tensor's padded chunk, ..., bytes of a slice, of a chunk, ratio of the sizes of
/// elements); the grid has a row for each chunk and a layer for each slice. What a tensor lacks of
/// its last chunks is filled with zeros.
std::optional<Effect> chunk_cat(const Arguments& a, ElementType type, ElementType source_type) {
  const auto tensors = length_of_tables(a, 5, 6);
  const auto slice = a.get<std::int64_t>(8), chunk = a.get<std::int64_t>(9);
  const auto slices = static_cast<std::int64_t>(a.shape.grid.z);
  const auto chunks = static_cast<std::int64_t>(a.shape.grid.y);
  std::byte* const destination = a.pointer(1);
  if (!tensors || length_of_tables(a, 6, 7) != tensors || slice < 0 || chunk < 0) {
    return std::nullopt;
  }
  Effect effect = of_tables(a, {0, 3, 5, 6}, *tensors);
  const auto size = static_cast<std::int64_t>(size_of(type));
  const auto source_size = static_cast<std::int64_t>(size_of(source_type));
  const double elements =
      static_cast<double>(slice) * static_cast<double>(slices) / static_cast<double>(size);
  effect.bytes = elements * static_cast<double>(size + source_size);
  effect.features.emplace_back("numel", elements);
  effect.compute = [=](std::span<Image> images) {
    const bool inside = is_allocated(destination, slice * slices);
    const auto known = tables(images, "_chunk_cat");
    if (!inside) return;
    if (known.empty()) return rank::forget(destination, static_cast<std::size_t>(slice * slices));
    for (std::size_t t = 0; t < *tensors; ++t) {
      std::byte* const from = address(known[0][t]);
      const std::int64_t first = known[1][t], whole = known[2][t], padded = known[3][t];
      if (first < 0 || padded < 0 || first + padded > chunk || chunk * chunks > slice ||
          !is_allocated(from, whole * slices)) {
        continue;
      }
      const std::int64_t part = padded / size * source_size;
      for (std::int64_t i = 0; i < slices * chunks; ++i) {
        const std::int64_t s = i / chunks, c = i % chunks;
        std::byte* const to = destination + s * slice + c * chunk + first;
        std::byte* const source = from + s * whole + c * part;
        const auto copied =
            static_cast<std::size_t>(std::clamp<std::int64_t>(whole - c * part, 0, part));
        const auto written =
            copied / static_cast<std::size_t>(source_size) * static_cast<std::size_t>(size);
        if (type == source_type) {
          rank::copy(to, source, copied);
        } else {
          convert(to, type, source, source_type, copied / static_cast<std::size_t>(source_size));
        }
        rank::fill(to + written, 0, static_cast<std::size_t>(padded) - written);
      }
    }
  };
  return effect;
}

}  // namespace

std::unique_ptr<Meaning> read_packed_copies(const Signature& signature, const KernelResources&) {
  const std::string_view name = unqualified(signature.kernel.name);
  if (name == "split_with_sizes_copy_out_contiguous_no_cast_kernel") return meaning(split);
  if (name != "chunk_cat_cuda_kernel" || signature.kernel.arguments.size() != 2) return nullptr;
  // <destination, source>: both char where nothing is converted.
  const auto type = element_type_named(signature.kernel.arguments[0]);
  const auto source_type = element_type_named(signature.kernel.arguments[1]);
  if (!type || !source_type) return nullptr;
  return meaning([=](const Arguments& a) { return chunk_cat(a, *type, *source_type); });
}

}  // namespace phantora::rank
