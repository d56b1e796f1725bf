#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costs/dtype.h"

/// A cluster description, as costs/clusters/*.json holds it (each constant there with its source; docs/clusters.md).
namespace autopar::costs {

/// One kind of accelerator.
struct Device {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t multiprocessors = 1;      ///< units that work on one tile of a matmul each (a GPU's SMs)
  std::int64_t accumulators = 1;         ///< large tiles whose sums a multiprocessor holds at once
  std::map<DType, double> matmul_flops;  ///< peak flop/s of matmuls, per dtype
  double matmul_clock = 1;               ///< share of the peak's clock that matmuls keep within the power limit
  /// Share of the rate inside large matmul tiles that attention reaches. The default: flash kernels have 185 to 225
  /// TFLOPS of 284 on A100 (Dao 2023) and, those of cuDNN, 518 to 529 of 850 on H100 (Shah et al. 2024).
  double attention_share = 0.65;
  double vector_flops = 0;      ///< flop/s of pointwise work, and of matmuls in dtypes not in matmul_flops
  double memory_bandwidth = 0;  ///< achievable bytes/s
  double launch_s = 0;          ///< seconds of one kernel's launch gap
  /// Share that is reached of what a collective gains by running in pieces beside matmuls (async tensor parallelism);
  /// 0: none does so.
  double matmul_overlap = 0;
};

/// A way of sending over a link.
struct Protocol {
  double bandwidth = 0;       ///< bytes/s each way, achievable; 0: the link has no such protocol
  double base_latency_s = 0;  ///< of starting a collective whose outermost level this is
  double hop_latency_s = 0;   ///< per step of a ring or tree
};

/// How the devices of one level of the cluster talk to each other. Levels go from inside (a node) to outside.
struct Link {
  std::string name;                ///< "nvlink", "infiniband"
  std::int64_t group = 0;          ///< devices that this level joins (inside a node: 8); 0: all
  Protocol bulk;                   ///< for large messages; the bandwidth is that of one device's port
  Protocol low_latency;            ///< for small ones (NCCL's LL); the bandwidth is a whole ring's
  double multicast_bandwidth = 0;  ///< bytes/s of a port when the switch reduces and multicasts (NVLS); 0: it can't
  double multicast_latency_s = 0;  ///< of such an all-reduce, the start included
};

struct Cluster {
  std::string name;
  Device device;
  std::vector<Link> links;  ///< inside first; the last joins all
};

}  // namespace autopar::costs
