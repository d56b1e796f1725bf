#include "launch/times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "engine/messages.h"
#include "io/file.h"
#include "io/input_error.h"
#include "launch/text_table.h"

namespace autopar::launch {
namespace {

using engine::Timing;

/// Seconds of a phase, by rank; of the one behind the last: what is in no phase.
std::vector<double> seconds_of(const std::vector<Timing>& ranks, std::size_t phase) {
  std::vector<double> seconds;
  for (const Timing& rank : ranks) {
    const double rest = rank.total_s - std::accumulate(rank.seconds.begin(), rank.seconds.end(), 0.0);
    seconds.push_back(phase < rank.seconds.size() ? rank.seconds[phase] : std::max(rest, 0.0));
  }
  return seconds;
}

std::vector<std::string> row(std::string_view name, const std::vector<double>& seconds, double total_s) {
  const auto [least, most] = std::ranges::minmax(seconds);
  const double average = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  return {std::string(name),
          fmt::format("{:.2f} s", least),
          fmt::format("{:.2f} s", average),
          fmt::format("{:.2f} s", most),
          average > 0 ? fmt::format("{:.0f}%", 100 * (most / average - 1)) : "–",
          fmt::format("{:.1f}%", 100 * average / total_s)};
}

}  // namespace

std::vector<Timing> gather_times(engine::Comm& comm) {
  comm.timing().total_s = engine::process_seconds();
  std::vector<Timing> ranks;
  for (const std::string& bytes : comm.gather(engine::pack(comm.timing())))
    ranks.push_back(engine::unpack_timing(bytes));
  return ranks;
}

std::string times_table(const std::vector<Timing>& ranks) {
  std::vector<double> totals;
  for (const Timing& rank : ranks) totals.push_back(rank.total_s);
  const double total_s = std::accumulate(totals.begin(), totals.end(), 0.0) / static_cast<double>(totals.size());
  std::vector<std::vector<std::string>> rows{
      {fmt::format("time of {} ranks", ranks.size()), "least", "average", "most", "imbalance", "share"}};
  for (std::size_t phase = 0; phase <= engine::kPhaseNames.size(); ++phase) {
    const bool is_rest = phase == engine::kPhaseNames.size();
    rows.push_back(row(is_rest ? "other" : engine::kPhaseNames[phase], seconds_of(ranks, phase), total_s));
  }
  rows.push_back(row("total", totals, total_s));
  Timing sum;
  for (const Timing& rank : ranks) {
    sum.tasks += rank.tasks;
    sum.branch_nodes += rank.branch_nodes;
    sum.messages += rank.messages;
    sum.bytes += rank.bytes;
  }
  return text_table(rows, 1) + fmt::format("{} tasks, {} branch nodes, {} messages ({:.1f} MB)\n", sum.tasks,
                                           sum.branch_nodes, sum.messages, static_cast<double>(sum.bytes) * 1e-6);
}

void open_log(const std::string& folder, engine::Comm& comm) {
  const auto path = std::filesystem::path(folder) / fmt::format("rank-{:04}.log", comm.rank());
  try {
    // Makes the folder, too.
    const auto log = spdlog::basic_logger_mt("rank", path.string(), true);
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
    log->flush_on(spdlog::level::info);
    comm.set_log([log](const std::string& line) { log->info("{}", line); });
  } catch (const spdlog::spdlog_ex& error) {
    throw io::InputError("--log-dir", "", error.what());
  }
}

void write_times(const std::string& folder, const std::vector<Timing>& ranks) {
  const std::filesystem::path path(folder);
  std::string times =
      fmt::format("rank,{}_s,total_s,tasks,branch_nodes,messages,bytes\n", fmt::join(engine::kPhaseNames, "_s,"));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Timing& t = ranks[rank];
    times += fmt::format("{},{:.6f},{:.6f},{},{},{},{}\n", rank, fmt::join(t.seconds, ","), t.total_s, t.tasks,
                         t.branch_nodes, t.messages, t.bytes);
  }
  io::write_file((path / "times.csv").string(), times);
  std::string tasks = "round,task,rank,start_s,seconds,bytes_sent,bytes_received\n";
  for (const engine::TaskTrace& task : ranks.front().trace) {
    tasks += fmt::format("{},\"{}\",{},{:.6f},{:.6f},{},{}\n", task.round, task.name, task.rank, task.start_s,
                         task.seconds, task.sent, task.received);
  }
  io::write_file((path / "tasks.csv").string(), tasks);
}

}  // namespace autopar::launch
