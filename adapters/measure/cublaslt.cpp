// Entry points of cuBLASLt.
#include "measure/mirror.hpp"

namespace phantora::measure {
namespace {

/// Descriptors in the program's own memory: the keys make theirs, in place of an older one there.
template <Library library, Name initialise, Name create, Name destroy, class Opaque, class... A>
struct InPlace {
  static cublasStatus_t call(Opaque* descriptor, std::size_t size, A... values) {
    using Initialise = cublasStatus_t(Opaque*, std::size_t, A...);
    const cublasStatus_t status =
        real<library, initialise, Initialise>()(descriptor, size, values...);
    if (depth > 0 || keys() == nullptr || status != CUBLAS_STATUS_SUCCESS) return status;
    const Inside inside;
    if (void* const old = handle_for_keys(descriptor))
      keyed<destroy, cublasStatus_t(Opaque*)>()(static_cast<Opaque*>(old));
    Opaque* made = nullptr;
    keyed<create, cublasStatus_t(Opaque**, A...)>()(&made, values...);
    stands_for(descriptor, made);
    return status;
  }
};

template <Library library>
constexpr auto init_layout =
    &InPlace<library, "cublasLtMatrixLayoutInit_internal", "cublasLtMatrixLayoutCreate",
             "cublasLtMatrixLayoutDestroy", cublasLtMatrixLayoutOpaque_t, cudaDataType,
             std::uint64_t, std::uint64_t, std::int64_t>::call;
template <Library library>
constexpr auto init_matmul =
    &InPlace<library, "cublasLtMatmulDescInit_internal", "cublasLtMatmulDescCreate",
             "cublasLtMatmulDescDestroy", cublasLtMatmulDescOpaque_t, cublasComputeType_t,
             cudaDataType_t>::call;

}  // namespace
}  // namespace phantora::measure

#define PHANTORA_MIRROR(name)                                               \
  PHANTORA_MIRROR_IN(cublasLt12, "libcublasLt.so.12", name, decltype(name)) \
  PHANTORA_MIRROR_IN(cublasLt13, "libcublasLt.so.13", name, decltype(name))
#define PHANTORA_IN_PLACE(name, function)                                             \
  PHANTORA_ENTRY(cublasLt12, "libcublasLt.so.12", name, decltype(name),               \
                 phantora::measure::function<phantora::measure::Library::cublasLt12>) \
  PHANTORA_ENTRY(cublasLt13, "libcublasLt.so.13", name, decltype(name),               \
                 phantora::measure::function<phantora::measure::Library::cublasLt13>)

PHANTORA_MIRROR(cublasLtMatrixLayoutCreate)
PHANTORA_MIRROR(cublasLtMatrixLayoutSetAttribute)
PHANTORA_MIRROR(cublasLtMatrixLayoutDestroy)
PHANTORA_MIRROR(cublasLtMatmulDescCreate)
PHANTORA_MIRROR(cublasLtMatmulDescSetAttribute)
PHANTORA_MIRROR(cublasLtMatmulDescDestroy)
PHANTORA_MIRROR(cublasLtMatrixTransformDescCreate)
PHANTORA_MIRROR(cublasLtMatrixTransformDescSetAttribute)
PHANTORA_MIRROR(cublasLtMatrixTransformDescDestroy)
PHANTORA_MIRROR(cublasLtMatmul)
PHANTORA_MIRROR(cublasLtMatrixTransform)
PHANTORA_IN_PLACE(cublasLtMatrixLayoutInit_internal, init_layout)
PHANTORA_IN_PLACE(cublasLtMatmulDescInit_internal, init_matmul)
