#include "partition/held_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "costs/memory.h"
#include "costs/views.h"
#include "engine/comm.h"
#include "partition/build_network.h"
#include "plan_checker.h"
#include "random_assignment.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using costs::Phase;
using costs::Placements;
using costs::Role;
using costs::ValueRef;
using testing::random_assignment;
using testing::residual_layers;
using testing::toy_problem;
using testing::ToyGraph;

/// What a plan holds, by following every tensor of the step from where its storage is made to the last time that it or
/// a view or copy of it is needed. It knows nothing of holdings: a tensor that is not moved is the same storage.
class MemoryOracle {
 public:
  MemoryOracle(const Problem& problem, const Plan& plan)
      : problem_(problem),
        plan_(plan),
        timeline_(Timeline::of(problem.graph)),
        uses_(collect_uses(problem.graph)),
        windows_(find_windows(problem, uses_)),
        bytes_(static_cast<std::size_t>(timeline_.num_times()), 0) {}

  std::vector<std::int64_t> run() {
    const costs::Graph& graph = problem_.graph;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const costs::Node& node = graph.nodes[i];
      if (costs::is_view(node.op)) continue;
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueRef value{static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)};
        const bool is_input = node.role != Role::kNone;
        const std::int64_t bytes =
            node.role == Role::kParameter
                ? costs::parameter_bytes(graph.meta(value), given(value), problem_.mesh, problem_.pins.optimizer)
                : size(value, given(value));
        const std::size_t storage = make(bytes, is_input ? 0 : early(value.node, timeline_.run_time(value.node)));
        if (is_input) need(storage, timeline_.num_times() - 1);
        follow(value, storage, given(value));
      }
    }
    for (const Move& move : moves_) {
      // What nothing needs any more is one of the buffers.
      const bool frees_source = storages_[move.from].last < move.time;
      const auto making = [&](costs::Making part) {
        return costs::making_bytes(graph.meta(move.value), *move.steps, problem_.mesh, frees_source, part);
      };
      if (!move.finish) {
        bytes_[ix(move.time)] += making(costs::Making::kAtOnce);
        continue;
      }
      const std::int32_t finish = std::max(move.time, *move.finish);
      bytes_[ix(move.time)] += making(costs::Making::kStart);
      for (std::int32_t t = move.time + 1; t < finish; ++t) bytes_[ix(t)] += making(costs::Making::kFlight);
      bytes_[ix(finish)] += making(costs::Making::kFinish);
    }
    for (const Storage& storage : storages_) {
      for (std::int32_t t = storage.made; t <= storage.last; ++t) bytes_[ix(t)] += storage.bytes;
    }
    return bytes_;
  }

 private:
  struct Storage {
    std::int64_t bytes = 0;
    std::int32_t made = 0;
    std::int32_t last = 0;
  };

  struct Move {
    ValueRef value;
    std::size_t from = 0;
    std::int32_t time = 0;
    const std::vector<costs::RedistributeStep>* steps = nullptr;
    std::optional<std::int32_t> finish = {};  // of a flight
  };

  static std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }
  const Placements& given(ValueRef value) const { return plan_.nodes[ix(value.node)].outputs[ix(value.output)]; }
  std::int64_t size(ValueRef value, const Placements& placements) const {
    return costs::local_bytes(problem_.graph.meta(value), placements, problem_.mesh);
  }
  std::size_t make(std::int64_t bytes, std::int32_t time) {
    storages_.push_back({bytes, time, time});
    return storages_.size() - 1;
  }
  void need(std::size_t storage, std::int32_t time) {
    storages_[storage].last = std::max(storages_[storage].last, time);
  }

  bool is_input(ValueRef value) const { return problem_.graph.nodes[ix(value.node)].role != Role::kNone; }

  std::int32_t read_time(ValueRef value, const Redistribution::Use& use) const {
    if (use.input >= 0) return early(use.node, timeline_.read_time(use.node, use.input));
    return is_input(value) ? 0 : timeline_.give_time(value.node);
  }

  /// When `node` has something at `time` which it may be asked for earlier.
  std::int32_t early(std::int32_t node, std::int32_t time) const {
    const std::int32_t at = windows_ ? windows_->needed_at(node) : -1;
    return at < 0 ? time : timeline_.first_time[ix(at)];
  }

  /// `value` as `to`, made at `time` of `storage`, which has it as `from`.
  std::size_t moved(ValueRef value, std::size_t storage, const Placements& from, const Placements& to,
                    std::int32_t time, std::int32_t flight_of = -1) {
    const Flight flight = windows_ && flight_of >= 0 ? windows_->flight(flight_of) : Flight{};
    if (flight.exists()) time = timeline_.first_time[ix(flight.start)];
    time = std::max(time, storages_[storage].made);
    if (from == to) {
      need(storage, time);
      return storage;
    }
    // Of what is all of its storage nothing is left if this is the last to read it. Two moves at once both need it.
    const auto is_at_once = [&](const Move& other) { return other.from == storage && other.time == time; };
    const bool is_all = storages_[storage].bytes == size(value, from);
    need(storage, is_all && std::none_of(moves_.begin(), moves_.end(), is_at_once) ? time - 1 : time);
    for (const Redistribution& move : plan_.redistributions) {
      if (move.value != value || move.from != from || move.to != to || move.flight.start != flight.start) continue;
      moves_.push_back({value, storage, time, &move.steps});
      const std::size_t made = make(size(value, to), time);
      if (flight.exists()) {
        moves_.back().finish = flight.finish < 0 ? timeline_.num_times() - 1 : timeline_.first_time[ix(flight.finish)];
        need(made, *moves_.back().finish);
      }
      return made;
    }
    ADD_FAILURE() << "the plan has no redistribution to what it reads";
    return storage;
  }

  void follow(ValueRef value, std::size_t storage, const Placements& placements) {
    std::size_t kept = storage;  // what both phases start from, if the plan makes that
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].value != value) continue;
      std::int32_t first = timeline_.num_times();
      for (const Redistribution::Use& use : uses_[i].uses) first = std::min(first, read_time(value, use));
      Placements now = placements;
      bool may_fly = true;
      if (plan_.kept[i] && *plan_.kept[i] != placements) {
        const bool is_forward = uses_[i].phase == Phase::kForward;
        now = *plan_.kept[i];
        if (is_forward) kept = moved(value, storage, placements, now, first, static_cast<std::int32_t>(i));
        may_fly = !is_forward;
      }
      std::size_t there = kept;
      if (plan_.saved[i]) {
        there = moved(value, there, now, *plan_.saved[i], saved_time(value));
        now = *plan_.saved[i];
      }
      if (uses_[i].uses.size() > 1) {
        there = moved(value, there, now, plan_.copies[i], first, may_fly ? static_cast<std::int32_t>(i) : -1);
        now = plan_.copies[i];
      }
      const std::int32_t only = may_fly && uses_[i].uses.size() == 1 ? static_cast<std::int32_t>(i) : -1;
      for (const Redistribution::Use& use : uses_[i].uses) follow_reader(value, use, there, now, only);
    }
  }

  void follow_reader(ValueRef value, const Redistribution::Use& use, std::size_t storage, const Placements& now,
                     std::int32_t flight_of) {
    const bool is_output = use.input < 0;
    const Placements& wanted =
        is_output ? plan_.outputs[ix(use.node)] : plan_.nodes[ix(use.node)].inputs[ix(use.input)];
    const std::size_t own = moved(value, storage, now, wanted, read_time(value, use), flight_of);
    need(own, is_output ? timeline_.num_times() - 1 : timeline_.run_time(use.node));
    const costs::Node* view = is_output || use.input != 0 ? nullptr : &problem_.graph.nodes[ix(use.node)];
    if (view == nullptr || !costs::is_view(view->op)) return;
    for (std::size_t o = 0; o < view->outputs.size(); ++o) {
      const ValueRef of_view{use.node, static_cast<std::int32_t>(o)};
      follow(of_view, own, given(of_view));
    }
  }

  /// Behind the value's making and its readers in the forward.
  std::int32_t saved_time(ValueRef value) const {
    std::int32_t time = timeline_.give_time(value.node);
    for (const PhaseUses& uses : uses_) {
      if (uses.value != value || uses.phase != Phase::kForward) continue;
      for (const Redistribution::Use& use : uses.uses) {
        if (use.input >= 0) time = std::max(time, timeline_.give_time(use.node));
      }
    }
    return time;
  }

  const Problem& problem_;
  const Plan& plan_;
  Timeline timeline_;
  std::vector<PhaseUses> uses_;
  std::optional<Windows> windows_;
  std::vector<std::int64_t> bytes_;
  std::vector<Storage> storages_;
  std::vector<Move> moves_;
};

/// relu(x w) cut in two by columns, one half of which is read later, and all of it in the backward by a view; a third
/// reader takes x itself.
costs::Graph split_and_views() {
  using testing::Arg;
  using testing::OutputRole;
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {64, 64});
  const ValueRef x = toy.input(Role::kInput, "x", {32, 64});
  const ValueRef y = toy.op(
      "relu.default", {ToyGraph::ref(toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {32, 64}))}, {32, 64});
  const ValueRef left = toy.op("split.Tensor", {ToyGraph::ref(y), {std::int64_t{32}}, {std::int64_t{1}}}, {32, 32});
  costs::Node& split = toy.graph.nodes[static_cast<std::size_t>(left.node)];
  split.outputs.push_back(split.outputs[0]);
  const ValueRef right{left.node, 1};
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(left)}, {32, 32});
  const ValueRef b = toy.op("add.Tensor", {ToyGraph::ref(right), ToyGraph::ref(a)}, {32, 32});
  toy.output(toy.op("sum.default", {ToyGraph::ref(b)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef yt = toy.op("t.default", {ToyGraph::ref(y)}, {64, 32});
  const ValueRef square = toy.op("mm.default", {ToyGraph::ref(yt), ToyGraph::ref(y)}, {64, 64});
  const ValueRef gradient = toy.op("t.default", {ToyGraph::ref(square)}, {64, 64});
  toy.output(gradient, OutputRole::kGradient, w);
  return std::move(toy.graph);
}

/// All time points of `problem`.
std::vector<std::int32_t> all_times(const Problem& problem) {
  std::vector<std::int32_t> times(static_cast<std::size_t>(Timeline::of(problem.graph).num_times()));
  std::iota(times.begin(), times.end(), 0);
  return times;
}

/// Whether the forward makes something of a tensor that it keeps: that is counted as if it came while others run.
bool goes_on_from_kept(const Problem& problem, const Plan& plan) {
  const std::vector<PhaseUses> uses = collect_uses(problem.graph);
  return std::any_of(plan.redistributions.begin(), plan.redistributions.end(), [&](const Redistribution& move) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const Placements& given = plan.nodes[static_cast<std::size_t>(move.value.node)].outputs[0];
      if (uses[i].value == move.value && move.phase == Phase::kForward && move.from != given &&
          plan.kept[i] == move.from)
        return true;
    }
    return false;
  });
}

struct Checked {
  int num_times = 0;  ///< time points of all plans whose tensors are counted as they are there
  int num_equal = 0;  ///< of these, where the plan holds just what the oracle says
  int num_saved = 0;
  int num_kept = 0;  ///< plans with what the forward makes and the backward finds
};

/// Plans of networks that look at one time point each hold at least what the oracle says. make_plan itself compares
/// with what the network counts there.
Checked check_random_plans(Problem problem, int num_plans, std::uint32_t seed) {
  problem.keep_dominated = true;
  const costs::Redistributor redistributor(problem.cluster, problem.mesh);
  const auto num_times = static_cast<std::uint32_t>(Timeline::of(problem.graph).num_times());
  std::mt19937 random(seed);
  Checked checked;
  for (int i = 0; i < num_plans; ++i) {
    const ModelNetwork model =
        build_network(problem, redistributor, {{static_cast<std::int32_t>(random() % num_times)}});
    const Plan plan = make_plan(problem, redistributor, model, random_assignment(model.network, random));
    testing::PlanChecker(problem, redistributor, plan).check();
    const std::vector<std::int64_t> held = held_memory(problem, plan).bytes;
    const std::vector<std::int64_t> least = MemoryOracle(problem, plan).run();
    EXPECT_EQ(held.size(), least.size());
    for (std::size_t t = 0; t < held.size(); ++t) EXPECT_GE(held[t], least[t]) << "plan " << i << ", time point " << t;
    for (std::size_t t = 0; t < held.size(); ++t) {
      if (problem.has_overlap && goes_on_from_kept(problem, plan)) break;
      ++checked.num_times;
      checked.num_equal += held[t] == least[t] ? 1 : 0;
    }
    const auto is_cut = [](const Redistribution& move) { return move.is_saved && move.uses.empty(); };
    checked.num_saved += std::any_of(plan.redistributions.begin(), plan.redistributions.end(), is_cut) ? 1 : 0;
    const auto is_kept = [](const Redistribution& move) { return move.is_saved && !move.uses.empty(); };
    checked.num_kept += std::any_of(plan.redistributions.begin(), plan.redistributions.end(), is_kept) ? 1 : 0;
  }
  return checked;
}

TEST(HeldMemoryTest, on_one_device_every_storage_is_held_as_long_as_it_is_needed) {
  for (const costs::Graph& graph : {residual_layers(3), split_and_views(), testing::linear_step(64, 32)}) {
    const Problem problem = toy_problem(graph, {1});
    const costs::Redistributor redistributor(problem.cluster, problem.mesh);
    const ModelNetwork model = build_network(problem, redistributor, {all_times(problem)});
    engine::Comm comm;
    const Plan plan = make_plan(problem, redistributor, model, engine::solve(model.network, {}, comm).assignment);
    ASSERT_TRUE(plan.redistributions.empty());
    EXPECT_EQ(held_memory(problem, plan).bytes, MemoryOracle(problem, plan).run());
  }
}

class PlansTest : public ::testing::TestWithParam<bool> {};

TEST_P(PlansTest, no_plan_holds_more_than_is_counted) {
  Checked sum;
  for (const std::vector<std::int64_t>& mesh : {std::vector<std::int64_t>{4}, {2, 2}}) {
    std::uint32_t seed = 0;
    for (const costs::Graph& graph : {residual_layers(GetParam() ? 3 : 2), residual_layers(2, true), split_and_views(),
                                      testing::linear_step(64, 32)}) {
      SCOPED_TRACE(::testing::PrintToString(mesh) + ", graph " + std::to_string(seed));
      Problem problem = toy_problem(graph, mesh);
      problem.has_overlap = GetParam();
      const Checked checked = check_random_plans(std::move(problem), 40, ++seed);
      sum.num_times += checked.num_times;
      sum.num_equal += checked.num_equal;
      sum.num_saved += checked.num_saved;
      sum.num_kept += checked.num_kept;
    }
  }
  EXPECT_GT(sum.num_saved, 20);
  EXPECT_GT(sum.num_kept, 20);
  EXPECT_GT(10 * sum.num_equal, 7 * sum.num_times);
}

INSTANTIATE_TEST_SUITE_P(HeldMemory, PlansTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "with_overlap" : "without"; });

}  // namespace
}  // namespace autopar::partition
