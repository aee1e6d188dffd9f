/** The limits of guests and scripts: processes, memory and output. */
export const executorLimits = {
  guestMemoryMb: 64,
  guestProcesses: 64,
  guestSpareProcesses: 2,
  guestIdleMs: 300_000,
  guestFrameBytes: 4 * 1024 * 1024,
  /** The received parts of incomplete frames from guests, of all tenants and of each; short ones do not count. */
  unfinishedGuestBytes: 256 * 1024 * 1024,
  unfinishedGuestBytesPerTenant: 64 * 1024 * 1024,
  /** Messages that a guest has not taken yet: above this, nothing is read from it until it has taken all of them. */
  guestBacklogBytes: 16 * 1024 * 1024,
  /** How long it may then take for that, before its process is ended. */
  guestStalledMs: 60_000,
  guestEventsPerCall: 10_000_000,
  /** Calls that a guest continues after their clients have gone; above this, new calls get another process. */
  abandonedCallsPerProcess: 64,
  /** The processor time of a definition's top level, which is tried when the definition is published. */
  loadMs: 2_000,
  /** The time after which the trial is given up. */
  loadElapsedMs: 10_000,
  scriptProcesses: 16,
  scriptMemoryMb: 256,
  scriptDiskMb: 64,
  scriptTasks: 64,
  sandboxTrialMs: 120_000,
};
