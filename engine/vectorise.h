#pragma once

/// Marks a hot loop over costs: compiled for several instruction sets, the best one picked at start-up (the baseline of
/// x86-64 has no 64-bit integer minimum). Sanitizers cannot run before start-up, so they get the plain function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define AUTOPAR_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define AUTOPAR_VECTORISED
#endif
