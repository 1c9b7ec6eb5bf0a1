// Wide loops gain a lot from the machine's vector instructions. ThreadSanitizer cannot start programs with resolvers.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_WIDE __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define LOCKSTEP_WIDE
#endif
