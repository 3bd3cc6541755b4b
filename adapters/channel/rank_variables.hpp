#pragma once

#include <array>

/// How launchers tell a process which rank it is: names of environment variables, nullptr where a
/// launcher has none.
namespace phantora::channel {

struct RankVariables {
  const char* rank;        ///< among all
  const char* ranks;       ///< how many there are
  const char* local_rank;  ///< among those of its host
  const char* local_ranks;
};

/// In the order in which they are believed: PyTorch's (torchrun, and phantora itself), Open MPI's,
/// MVAPICH2's, PMIx's and PMI's (Hydra: MPICH, Intel MPI), Slurm's.
inline constexpr std::array<RankVariables, 6> rank_variables = {{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"PMIX_RANK", nullptr, nullptr, nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
}};

}  // namespace phantora::channel
