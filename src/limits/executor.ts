/** What guests may take: processes, memory, what they say; and scripts. */
export const executorLimits = {
  guestMemoryMb: 64,
  guestProcesses: 64,
  guestSpareProcesses: 2,
  guestIdleMs: 300_000,
  guestFrameBytes: 4 * 1024 * 1024,
  /** What has come of frames of guests that are not whole yet, of all tenants and of each; short ones do not count. */
  unfinishedGuestBytes: 256 * 1024 * 1024,
  unfinishedGuestBytesPerTenant: 64 * 1024 * 1024,
  /** Of messages that a guest has not taken yet: beyond it nothing is read from it until it has taken all of them. */
  guestBacklogBytes: 16 * 1024 * 1024,
  /** How long it may then take for that, before its process is ended. */
  guestStalledMs: 60_000,
  guestEventsPerCall: 10_000_000,
  /** Calls whose clients have gone, and which a guest goes on with; beyond it the next calls get a process of their own. */
  abandonedCallsPerProcess: 64,
  /** Processor time of a definition's top level, which is tried where the definition is published. */
  loadMs: 2_000,
  /** After which nobody waits for it any more. */
  loadElapsedMs: 10_000,
  scriptProcesses: 16,
  scriptMemoryMb: 256,
  scriptDiskMb: 64,
  scriptTasks: 64,
  sandboxTrialMs: 120_000,
};
