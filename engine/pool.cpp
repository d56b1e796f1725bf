#include "engine/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "engine/messages.h"
#include "engine/stop.h"

namespace autopar::engine {
namespace {

// Each rank has a second task waiting while more than so many a rank are left,
constexpr std::size_t kManyTasks = 3;
// and those of the round that are done took less than this on average. The wait for a round trip is then more than some
// per cent of a task; a second task that waits behind a longer one may be what the round ends with.
constexpr double kQuickTask = 0.02;  // s
// How often is looked for messages. While a task runs, rarer the longer it has run, as its end is then heard of late in
// proportion only: ranks that share a core would otherwise keep it busy with looking.
constexpr std::chrono::microseconds kCoordinatorPause{200};
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{2000};
constexpr double kPauseShare = 0.05;

/// A thread that does one thing at a time.
template <class Result>
class Worker {
 public:
  bool is_idle() const { return !running_.valid(); }
  bool is_done() const {
    return running_.valid() && running_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  template <class Function>
  void start(Function function) {
    start_s_ = process_seconds();
    running_ = std::async(std::launch::async, [this, work = std::move(function)] {
      const double begin = process_seconds();
      Result result = work();
      seconds_ = process_seconds() - begin;
      return result;
    });
  }
  /// Also throws what the function threw.
  Result take() { return running_.get(); }
  std::chrono::microseconds pause() const {
    const std::chrono::duration<double> share((process_seconds() - start_s_) * kPauseShare);
    return std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(share), kShortestPause, kLongestPause);
  }
  double start_s() const { return start_s_; }
  double seconds() const { return seconds_; }

 private:
  std::future<Result> running_;
  double start_s_ = 0;
  double seconds_ = 0;
};

class Coordinator {
 public:
  Coordinator(TaskRound& round, const Deadline& deadline, Comm& comm, const Report& report)
      : round_(round), deadline_(deadline), comm_(comm), report_(report), traces_(round.size()) {
    for (std::size_t task = 0; task < round.size(); ++task) queue_.push_back(task);
  }

  void run() {
    if (comm_.size() == 1) {
      run_alone();
    } else {
      run_shared();
    }
    ++comm_.timing().rounds;
    if (comm_.has_log()) keep_traces();
  }

 private:
  void run_alone() {
    for (; !queue_.empty() && !deadline_.passed(); report()) {
      const std::size_t task = next();
      traces_[task].start_s = process_seconds();
      round_.run(task);
      count(task, process_seconds() - traces_[task].start_s);
      note(task);
      ++comm_.timing().tasks;
    }
  }

  void keep_traces() {
    Timing& timing = comm_.timing();
    for (std::size_t task = 0; task < traces_.size(); ++task) {
      TaskTrace& trace = traces_[task];
      if (trace.seconds <= 0) continue;  // left out
      trace.name = round_.name(task);
      trace.round = timing.rounds - 1;
      timing.trace.push_back(std::move(trace));
    }
  }

  void run_shared() {
    if (deadline_.passed()) stop();
    for (int rank = 1; rank < comm_.size(); ++rank) hand_out(rank);
    while (!queue_.empty() || in_flight_ > 0 || !worker_.is_idle()) {
      if (deadline_.passed()) stop();
      if (worker_.is_done()) finish_own();
      if (worker_.is_idle() && !queue_.empty()) {
        own_ = next();
        worker_.start([this, task = own_] {
          round_.run(task);
          return true;
        });
      }
      const bool is_waiting = worker_.is_idle();
      const double before = process_seconds();
      const std::optional<Comm::Message> message = comm_.receive_within(kCoordinatorPause);
      if (is_waiting) comm_.timing().add(Phase::kWait, process_seconds() - before);
      if (message) take(*message);
    }
  }

  std::size_t next() {
    const std::size_t task = queue_.front();
    queue_.pop_front();
    return task;
  }

  /// One task, and another one if there are many quick ones.
  void hand_out(int rank) {
    const std::size_t many = kManyTasks * ix(comm_.size());
    const bool are_quick = done_ > 0 && seconds_done_ < kQuickTask * static_cast<double>(done_);
    int& waiting = in_flight_of_[ix(rank)];
    while (!queue_.empty() && waiting < (are_quick && queue_.size() > many ? 2 : 1)) {
      const std::size_t task = next();
      TaskMessage message;
      message.id = static_cast<std::int32_t>(task);
      message.body = round_.pack(task);
      std::string bytes = engine::pack(message);
      traces_[task].start_s = process_seconds();
      traces_[task].rank = rank;
      traces_[task].sent = static_cast<std::int64_t>(bytes.size());
      comm_.send(rank, std::move(bytes));
      ++waiting;
      ++in_flight_;
    }
  }

  void take(const Comm::Message& message) {
    const ResultMessage result = unpack_result(message.bytes);
    --in_flight_;
    --in_flight_of_[ix(message.from)];
    count(ix(result.id), result.seconds);
    hand_out(message.from);  // before all else, for the rank waits
    TaskTrace& trace = traces_[ix(result.id)];
    trace.received = static_cast<std::int64_t>(message.bytes.size());
    note(ix(result.id));
    round_.take(ix(result.id), result.body);
    report();
  }

  void finish_own() {
    traces_[own_].start_s = worker_.start_s();
    worker_.take();
    count(own_, worker_.seconds());
    note(own_);
    ++comm_.timing().tasks;
    report();
  }

  void count(std::size_t task, double seconds) {
    traces_[task].seconds = seconds;
    seconds_done_ += seconds;
    ++done_;
  }

  void note(std::size_t task) const {
    if (!comm_.has_log()) return;
    comm_.log(fmt::format("{} on rank {}: {:.3f} s", round_.name(task), traces_[task].rank, traces_[task].seconds));
  }

  void report() {
    if (report_) report_(done_, round_.size());
  }

  void stop() {
    queue_.clear();
    if (std::exchange(has_stopped_, true) || stop_signal() == 0) return;
    TaskMessage message;
    message.kind = TaskMessage::Kind::kStop;
    message.id = stop_signal();
    const std::string bytes = engine::pack(message);
    for (int rank = 1; rank < comm_.size(); ++rank) comm_.send(rank, bytes);
  }

  TaskRound& round_;
  const Deadline& deadline_;
  Comm& comm_;
  const Report& report_;
  std::deque<std::size_t> queue_;
  Worker<bool> worker_;
  std::size_t own_ = 0;  // what it works on
  std::vector<int> in_flight_of_ = std::vector<int>(ix(comm_.size()), 0);
  int in_flight_ = 0;
  std::size_t done_ = 0;
  double seconds_done_ = 0;
  bool has_stopped_ = false;
  std::vector<TaskTrace> traces_;
};

}  // namespace

void run_on_all_ranks(TaskRound& round, const Deadline& deadline, Comm& comm, const Report& report) {
  Coordinator(round, deadline, comm, report).run();
}

Status serve(Comm& comm, const TaskFunction& function) {
  std::deque<TaskMessage> queue;
  Worker<std::string> worker;
  std::int32_t id = 0;
  while (true) {
    if (worker.is_done()) {
      std::string body = worker.take();
      if (comm.has_log()) comm.log(fmt::format("task {} done: {:.3f} s, {} bytes", id, worker.seconds(), body.size()));
      comm.send(0, pack(ResultMessage{id, worker.seconds(), std::move(body)}));
      ++comm.timing().tasks;
    }
    if (worker.is_idle() && !queue.empty()) {
      id = queue.front().id;
      if (comm.has_log()) comm.log(fmt::format("task {} begins", id));
      worker.start([&function, body = std::move(queue.front().body)] { return function(body); });
      queue.pop_front();
    }
    const double before = process_seconds();
    std::optional<Comm::Message> message;
    if (worker.is_idle()) {
      message = comm.receive();
      comm.timing().add(Phase::kWait, process_seconds() - before);
    } else {
      message = comm.receive_within(worker.pause());
    }
    if (!message) continue;
    TaskMessage task = unpack_task(message->bytes);
    if (task.kind == TaskMessage::Kind::kLast) return task.status;
    if (task.kind == TaskMessage::Kind::kStop) request_stop(task.id);
    if (task.kind == TaskMessage::Kind::kTask) queue.push_back(std::move(task));
  }
}

void dismiss(Status status, Comm& comm) {
  TaskMessage last;
  last.kind = TaskMessage::Kind::kLast;
  last.status = status;
  const std::string bytes = pack(last);
  for (int rank = 1; rank < comm.size(); ++rank) comm.send(rank, bytes);
}

}  // namespace autopar::engine
