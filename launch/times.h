#pragma once

#include <string>
#include <vector>

#include "engine/comm.h"
#include "engine/timing.h"

/// What the ranks did with their time.
namespace autopar::launch {

/// Collective: on rank 0, what each rank did; on the others nothing.
std::vector<engine::Timing> gather_times(engine::Comm& comm);

/// Per phase the least, average and largest time of a rank, as a person reads it.
std::string times_table(const std::vector<engine::Timing>& ranks);

/// Makes the folder, and this rank's log in it. Throws io::InputError.
void open_log(const std::string& folder, engine::Comm& comm);

/// Writes times.csv (one line per rank) and tasks.csv (one line per task) into the folder. Throws io::InputError.
void write_times(const std::string& folder, const std::vector<engine::Timing>& ranks);

}  // namespace autopar::launch
