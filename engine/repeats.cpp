#include "engine/repeats.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::int32_t kFewestCopies = 6;
constexpr std::int32_t kKeptCopies = 4;

/// Equal copies of `period` segments each; `first` is the first segment.
struct Row {
  std::int32_t first = 0;
  std::int32_t period = 1;
  std::int32_t copies = 0;
  std::int32_t gone() const { return (copies - kKeptCopies) * period; }  // segments
};

class Shortener {
 public:
  explicit Shortener(const CostNetwork& network) : net_(network) {
    std::map<std::int32_t, std::int32_t> number;  // of segments that have variables
    for (const Variable& variable : net_.variables) number.try_emplace(variable.segment);
    for (auto& [segment, at] : number) at = num_segments_++;
    members_.resize(ix(num_segments_));
    edges_of_.resize(net_.variables.size());
    for (std::int32_t v = 0; v < net_.num_variables(); ++v) {
      segment_.push_back(number[net_.variables[ix(v)].segment]);
      place_.push_back(static_cast<std::int32_t>(members_[ix(segment_.back())].size()));
      members_[ix(segment_.back())].push_back(v);
    }
    for (std::size_t e = 0; e < net_.edges.size(); ++e) {
      edges_of_[ix(net_.edges[e].u)].push_back(static_cast<std::int32_t>(e));
      edges_of_[ix(net_.edges[e].v)].push_back(static_cast<std::int32_t>(e));
    }
    is_taken_.assign(ix(num_segments_), 0);
  }

  std::optional<ShortNetwork> run() {
    while (const std::optional<Row> row = longest_row()) {
      rows_.push_back(*row);
      std::fill_n(is_taken_.begin() + row->first, row->copies * row->period, char{1});
    }
    if (rows_.empty()) return std::nullopt;
    return make();
  }

 private:
  /// An edge as one of its ends sees it, the same for all copies: the other end by its distance in segments and its
  /// place there or, far away, by itself.
  using Neighbour = std::tuple<bool, std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t, bool>;
  using Signature = std::vector<std::vector<Neighbour>>;  // per variable of a segment; first its domain

  Signature signature(std::int32_t segment, std::int32_t period) const {
    Signature made;
    for (const std::int32_t v : members_[ix(segment)]) {
      std::vector<Neighbour> around;
      for (const std::int32_t e : edges_of_[ix(v)]) {
        const Edge& edge = net_.edges[ix(e)];
        const std::int32_t other = edge.u == v ? edge.v : edge.u;
        const std::int32_t distance = segment_[ix(other)] - segment;
        const bool is_near = std::abs(distance) <= period;
        around.emplace_back(is_near, is_near ? distance : 0, is_near ? place_[ix(other)] : other, edge.table,
                            edge.project_u, edge.project_v, edge.u == v);
      }
      std::ranges::sort(around);
      around.emplace_back(false, 0, net_.variables[ix(v)].domain, -1, -1, -1, false);
      made.push_back(std::move(around));
    }
    return made;
  }

  /// Of those that are not taken yet, the one that shortens the network most.
  std::optional<Row> longest_row() const {
    std::optional<Row> best;
    std::size_t most = 0;
    for (std::int32_t period = 1; period * kFewestCopies <= num_segments_; ++period) {
      std::vector<Signature> signatures;
      for (std::int32_t s = 0; s < num_segments_; ++s) signatures.push_back(signature(s, period));
      for (std::int32_t first = 0; first < num_segments_;) {
        // All of first ... end are free, and like those a period before them.
        std::int32_t end = first;
        while (end < num_segments_ && is_taken_[ix(end)] == 0 &&
               (end - first < period || signatures[ix(end)] == signatures[ix(end - period)])) {
          ++end;
        }
        const Row row{first, period, (end - first) / period};
        if (row.copies >= kFewestCopies) {
          std::size_t gone = 0;
          for (std::int32_t s = first; s < first + row.gone(); ++s) gone += members_[ix(s)].size();
          if (gone > most) {
            most = gone;
            best = row;
          }
        }
        first = std::max(first + 1, end - period + 1);
      }
    }
    return best;
  }

  /// The row that `segment` is in the middle of, where copies go.
  const Row* row_without(std::int32_t segment) const {
    for (const Row& row : rows_) {
      const std::int32_t first_gone = row.first + 2 * row.period;
      if (segment >= first_gone && segment < first_gone + row.gone()) return &row;
    }
    return nullptr;
  }

  std::int32_t moved(std::int32_t v, std::int32_t segments) const {
    return members_[ix(segment_[ix(v)] + segments)][ix(place_[ix(v)])];
  }

  ShortNetwork make() const {
    ShortNetwork made;
    made.alike.resize(net_.variables.size());
    std::iota(made.alike.begin(), made.alike.end(), 0);
    for (std::int32_t v = 0; v < net_.num_variables(); ++v) {
      const Row* row = row_without(segment_[ix(v)]);
      made.variable_of.push_back(row == nullptr ? v : moved(v, shift_to_second(*row, segment_[ix(v)])));
    }
    for (const Row& row : rows_) {
      for (std::int32_t s = row.first + row.period; s < row.first + 2 * row.period; ++s) {
        for (const std::int32_t v : members_[ix(s)]) made.alike[ix(v)] = moved(v, row.gone() + row.period);
      }
    }
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t>, std::int32_t> known;
    for (const Edge& edge : net_.edges) {
      Edge left = edge;
      const Row* row_u = row_without(segment_[ix(edge.u)]);
      const Row* row_v = row_without(segment_[ix(edge.v)]);
      if (row_u != nullptr && row_v == nullptr) left.u = stand_in(*row_u, edge.u, left.v);
      if (row_v != nullptr && row_u == nullptr) left.v = stand_in(*row_v, edge.v, left.u);
      if (row_u != nullptr && row_v != nullptr) {
        const std::int32_t copy_u = copy_of(*row_u, edge.u);
        const std::int32_t copy_v = copy_of(*row_v, edge.v);
        left.u = copy_u <= copy_v ? made.variable_of[ix(edge.u)] : last_but_one(*row_u, edge.u);
        left.v = copy_v <= copy_u ? made.variable_of[ix(edge.v)] : last_but_one(*row_v, edge.v);
      }
      const auto [entry, is_new] = known.try_emplace({left.u, left.v, left.table, left.project_u, left.project_v},
                                                     static_cast<std::int32_t>(made.edges.size()));
      if (is_new) made.edges.push_back(left);
      made.edge_of.push_back(entry->second);
    }
    return made;
  }

  std::int32_t copy_of(const Row& row, std::int32_t v) const { return (segment_[ix(v)] - row.first) / row.period; }
  std::int32_t shift_to_second(const Row& row, std::int32_t segment) const {
    return (1 - (segment - row.first) / row.period) * row.period;
  }
  std::int32_t last_but_one(const Row& row, std::int32_t v) const {
    return moved(v, (row.copies - 2 - copy_of(row, v)) * row.period);
  }
  /// For an edge to `kept`, which is left: before the gap the other end is in what now follows, else in what now is
  /// before it; from far away in the second copy.
  std::int32_t stand_in(const Row& row, std::int32_t v, std::int32_t kept) const {
    const bool is_before = segment_[ix(kept)] >= row.first && segment_[ix(kept)] < segment_[ix(v)];
    return is_before ? last_but_one(row, v) : moved(v, shift_to_second(row, segment_[ix(v)]));
  }

  const CostNetwork& net_;
  std::int32_t num_segments_ = 0;
  std::vector<std::int32_t> segment_;               // per variable: among those that have variables
  std::vector<std::int32_t> place_;                 // per variable: in its segment
  std::vector<std::vector<std::int32_t>> members_;  // per segment
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<char> is_taken_;
  std::vector<Row> rows_;
};

}  // namespace

std::optional<ShortNetwork> shorten(const CostNetwork& network) { return Shortener(network).run(); }

}  // namespace autopar::engine
