# Sourced by the scripts that start mpirun on one machine; the program itself sets none of this.
# Containers and CI run as root, which Open MPI refuses unless told twice.
if [[ $(id -u) == 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# More ranks than cores are fine: a waiting rank sleeps.
export OMPI_MCA_rmaps_base_oversubscribe=1
# The default binding would pin all threads of a rank to one core.
export OMPI_MCA_hwloc_base_binding_policy=none
# From 32 ranks on, Open MPI 4.1 may lose a rank while it starts them in a thread pool.
export OMPI_MCA_odls_base_cutoff=100000
