#include "engine/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace autopar::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = Launcher::Kind;
using Variables = std::map<std::string, std::string>;

Launcher launcher_of(const Variables& variables) {
  return find_launcher([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// Of a step that srun started, as Slurm 22.05 sets them; the rest of the job's are beside the point.
Variables step(const std::string& size, const std::string& rank, Variables more = {}) {
  more.insert({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", size}, {"SLURM_PROCID", rank}});
  return more;
}

TEST(LauncherTest, a_job_script_is_no_launcher) {
  EXPECT_EQ(launcher_of({}).kind, Kind::kNone);
  EXPECT_EQ(launcher_of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).kind, Kind::kNone);
}

TEST(LauncherTest, a_step_of_one_process_is_no_launcher) {
  EXPECT_EQ(launcher_of(step("1", "0")).kind, Kind::kNone);
  EXPECT_EQ(launcher_of(step("1", "0", {{"SLURM_MPI_TYPE", "pmi2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})).kind,
            Kind::kNone);
}

TEST(LauncherTest, a_step_without_pmix) {
  const Launcher none = launcher_of(step("4", "3"));
  EXPECT_EQ(none.kind, Kind::kSlurm);
  EXPECT_EQ(none.num_processes, 4);
  EXPECT_FALSE(none.is_first);
  EXPECT_EQ(none.slurm_mpi, "none");
  const Launcher pmi2 = launcher_of(step("4", "0", {{"SLURM_MPI_TYPE", "pmi2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}));
  EXPECT_EQ(pmi2.kind, Kind::kSlurm);
  EXPECT_TRUE(pmi2.is_first);
  EXPECT_EQ(pmi2.slurm_mpi, "pmi2");
}

TEST(LauncherTest, pmix) {
  const Launcher found = launcher_of(step("4", "1", {{"SLURM_MPI_TYPE", "pmix"}, {"PMIX_RANK", "1"}}));
  EXPECT_EQ(found.kind, Kind::kPmix);
  EXPECT_EQ(found.num_processes, 4);
  EXPECT_FALSE(found.is_first);
  // Alone, too: whoever sets it may have started others elsewhere.
  EXPECT_EQ(launcher_of({{"PMIX_RANK", "0"}}).kind, Kind::kPmix);
}

TEST(LauncherTest, mpirun_that_reached_another_node_by_srun) {
  const Launcher found =
      launcher_of(step("1", "0", {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "4"}, {"PMIX_RANK", "4"}}));
  EXPECT_EQ(found.kind, Kind::kOpenMpi);
  EXPECT_EQ(found.num_processes, 8);
  EXPECT_FALSE(found.is_first);
}

TEST(LauncherTest, other_launchers) {
  const Launcher hydra = launcher_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "7"}});
  EXPECT_EQ(hydra.kind, Kind::kOther);
  EXPECT_EQ(hydra.num_processes, 2);
  const Launcher flux = launcher_of({{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "3"}});
  EXPECT_EQ(flux.kind, Kind::kOther);
  EXPECT_EQ(flux.num_processes, 3);
  EXPECT_EQ(launcher_of({{"PALS_RANKID", "0"}}).num_processes, 0);
}

TEST(LauncherTest, the_fault_names_the_way_out) {
  EXPECT_THAT(launch_fault(launcher_of(step("4", "0")), "Open MPI v4.1.4"),
              AllOf(HasSubstr("srun --mpi=none started 4 processes, which Open MPI v4.1.4 cannot join"),
                    HasSubstr("srun --mpi=pmix"), HasSubstr("mpirun")));
  EXPECT_THAT(launch_fault(launcher_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "MPI"), HasSubstr("2 processes"));
}

}  // namespace
}  // namespace autopar::engine
