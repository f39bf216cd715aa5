// A barrier of all work-groups of one dispatch, which must all be resident. ``state`` is two words: a count of arrivals,
// and a flag that says that a group gave up. ``local_state`` is two words too: that flag, and the count at the last
// barrier.
//
// Group 0 adds 2^31 - (groups - 1), and every other group adds 1. So the highest bit of the count changes when the last
// group has arrived, and nothing is ever reset. Invocation 0 arrives and waits for its whole group: release and acquire
// at device scope are cumulative over the local barriers around them. It polls by loads, which disturb arrivals least.
// Between arriving and waiting a group may do what needs no results of others.
#if defined(NVIDIA)
#define ARRIVE(state, n) asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(state), "r"(n) : "memory")
#define LOOK(now, state) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(state) : "memory")
#elif defined(__opencl_c_atomic_scope_device) && defined(__opencl_c_atomic_order_acq_rel)
#define COUNT(state) ((volatile __global atomic_uint*)(state))
#define ARRIVE(state, n) atomic_fetch_add_explicit(COUNT(state), n, memory_order_release, memory_scope_device)
#define LOOK(now, state) now = atomic_load_explicit(COUNT(state), memory_order_acquire, memory_scope_device)
#else
#define ARRIVE(state, n) mem_fence(CLK_GLOBAL_MEM_FENCE); atomic_add(state, n)
#define LOOK(now, state) now = *(state); mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

void begin_barriers(volatile __global uint* state, __local uint* local_state) {
  if (LOCAL == 0) {
    local_state[0] = state[1];
    local_state[1] = state[0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
void arrive_at_barrier(volatile __global uint* state, int groups) {
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
  if (LOCAL == 0) {
    uint arrival = get_group_id(0) == 0 ? 0x80000000u - (uint)(groups - 1) : 1u;
    ARRIVE(state, arrival);
  }
}
void wait_at_barrier(volatile __global uint* state, __local uint* local_state, uint max_spins) {
  if (LOCAL == 0) {
    uint looks = 0u;
    uint now = 0u;
    do {
      LOOK(now, state);
      looks++;
    } while (((local_state[1] ^ now) & 0x80000000u) == 0u && looks < max_spins);
    if (looks == max_spins) { state[1] = 1u; }
    local_state[0] = looks == max_spins ? 1u : 0u;
    local_state[1] = now;
  }
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
}
