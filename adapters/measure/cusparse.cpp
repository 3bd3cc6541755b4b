// Entry points of cuSPARSE's products.
#include "measure/mirror.hpp"

#include <cstdint>

#define PHANTORA_MIRROR(name, type) PHANTORA_MIRROR_IN(cusparse12, "libcusparse.so.12", name, type)

using phantora::measure::DenseMatrix;
using phantora::measure::DenseVector;
using phantora::measure::SparseHandle;
using phantora::measure::SparseMatrix;

PHANTORA_MIRROR(cusparseCreate, int(SparseHandle**))
PHANTORA_MIRROR(cusparseDestroy, int(SparseHandle*))
PHANTORA_MIRROR(cusparseSetStream, int(SparseHandle*, cudaStream_t))

#define PHANTORA_COMPRESSED(format)                                                           \
  PHANTORA_MIRROR(cusparseCreate##format,                                                     \
                  int(SparseMatrix**, std::int64_t, std::int64_t, std::int64_t, void*, void*, \
                      void*, int, int, int, cudaDataType))
PHANTORA_COMPRESSED(Csr)
PHANTORA_COMPRESSED(Csc)
PHANTORA_MIRROR(cusparseCreateCoo, int(SparseMatrix**, std::int64_t, std::int64_t, std::int64_t,
                                       void*, void*, void*, int, int, cudaDataType))
PHANTORA_MIRROR(cusparseCsrSetPointers, int(SparseMatrix*, void*, void*, void*))
PHANTORA_MIRROR(cusparseCsrSetStridedBatch, int(SparseMatrix*, int, std::int64_t, std::int64_t))
PHANTORA_MIRROR(cusparseDestroySpMat, int(SparseMatrix*))
PHANTORA_MIRROR(cusparseCreateDnVec, int(DenseVector**, std::int64_t, void*, cudaDataType))
PHANTORA_MIRROR(cusparseDnVecSetValues, int(DenseVector*, void*))
PHANTORA_MIRROR(cusparseDestroyDnVec, int(DenseVector*))
PHANTORA_MIRROR(cusparseCreateDnMat, int(DenseMatrix**, std::int64_t, std::int64_t, std::int64_t,
                                         void*, cudaDataType, int))
PHANTORA_MIRROR(cusparseDnMatSetStridedBatch, int(DenseMatrix*, int, std::int64_t))
PHANTORA_MIRROR(cusparseDestroyDnMat, int(DenseMatrix*))

PHANTORA_MIRROR(cusparseSpMV, int(SparseHandle*, int, const void*, SparseMatrix*, DenseVector*,
                                  const void*, DenseVector*, cudaDataType, int, void*))
PHANTORA_MIRROR(cusparseSpMM, int(SparseHandle*, int, int, const void*, SparseMatrix*, DenseMatrix*,
                                  const void*, DenseMatrix*, cudaDataType, int, void*))
PHANTORA_MIRROR(cusparseSDDMM, int(SparseHandle*, int, int, const void*, DenseMatrix*, DenseMatrix*,
                                   const void*, SparseMatrix*, cudaDataType, int, void*))
PHANTORA_MIRROR(cusparseXcoo2csr, int(SparseHandle*, const int*, int, int, int*, int))
