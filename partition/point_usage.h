#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costs/graph.h"
#include "costs/memory.h"
#include "partition/holdings.h"
#include "partition/uses.h"

namespace autopar::partition {

/// What takes memory at some chosen time points, by the choice that decides how much. Spans count these points, not
/// time points: [0, 2) are the first two of them.
struct PointUsage {
  /// A tensor of the size of `value`, with the placements of one of a node's inputs or outputs.
  struct Term {
    costs::ValueRef value;
    bool is_input = false;
    std::int32_t index = 0;
    engine::Span points;
    bool has_optimizer_state = false;  ///< a parameter
    bool is_workspace = false;         ///< not a tensor: what the node's local program needs
  };
  /// A link between a tensor and one that may be made from it by a redistribution: (entry of uses, its use; kCopy,
  /// kSaved or kKept for those tensors).
  using Link = std::pair<std::int32_t, std::int32_t>;
  static constexpr std::int32_t kCopy = -1;
  static constexpr std::int32_t kSaved = -2;
  static constexpr std::int32_t kKept = -3;
  struct Moved {
    std::vector<engine::Span> tensor;  ///< when the tensor counts, if it is moved
    /// By costs::Making, when the buffers of the redistribution count.
    std::array<std::vector<engine::Span>, costs::kNumMakings> making;
    bool frees_source = false;  ///< as in Holding
  };

  std::vector<std::vector<Term>> nodes;            ///< per Graph::nodes
  std::vector<std::vector<engine::Span>> copies;   ///< per entry of uses
  std::vector<std::vector<engine::Span>> saved;    ///< per entry of uses
  std::vector<std::vector<engine::Span>> kept;     ///< per entry of uses: of the forward's
  std::vector<std::vector<engine::Span>> outputs;  ///< per Graph::outputs, of those with placements of their own
  std::map<Link, Moved> moved;
  std::vector<char> is_saved;  ///< per entry of uses: at some of the points what is saved can stand for the value
  /// Per Graph::nodes: the memory of what it gives, or gets, counts, so that strategies compare in more than time.
  std::vector<char> outputs_count;
  std::vector<char> inputs_count;
};

/// `points`: time points, ascending. `windows`, `may_be_missing`: as for find_holdings().
PointUsage find_point_usage(const costs::Graph& graph, const Timeline& timeline, const std::vector<PhaseUses>& uses,
                            const std::vector<std::int32_t>& points, const Windows* windows, bool may_be_missing);

}  // namespace autopar::partition
