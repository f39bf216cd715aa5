// The barrier of barrier.cl in GLSL. Written buffers are coherent, and each invocation orders its own accesses: GLSL
// has no release and acquire by which one invocation could order those of all.
void begin_barriers() {
  if (LOCAL == 0) {
    local_state[0] = timed_out;
    local_state[1] = arrivals;
  }
  memoryBarrierShared();
  barrier();
}
void arrive_at_barrier() {
  memoryBarrierBuffer();
  barrier();
  if (LOCAL == 0) { atomicAdd(arrivals, gl_WorkGroupID.x == 0u ? 0x80000000u - uint(groups - 1) : 1u); }
}
void wait_at_barrier() {
  if (LOCAL == 0) {
    int looks = 0;
    uint now = 0u;
    do {
      now = arrivals;
      looks++;
    } while (((local_state[1] ^ now) & 0x80000000u) == 0u && looks < max_spins);
    if (looks == max_spins) { timed_out = 1u; }
    local_state[0] = looks == max_spins ? 1u : 0u;
    local_state[1] = now;
  }
  memoryBarrierShared();
  barrier();
  memoryBarrierBuffer();
}
