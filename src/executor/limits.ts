import type { Limits } from "../limits/limits.ts";

/** Calls that run at once, and processes of guest code and of scripts and what they may use, of one tenant. */
export interface ExecutorTenantLimits {
  readonly calls: number;
  readonly guestProcesses: number;
  readonly scriptProcesses: number;
  readonly processStartsPerMinute: number;
  readonly processorMsPerSecond: number;
}

export type ExecutorLimits = Pick<
  Limits,
  | "outputBytes"
  | "guestMemoryMb"
  | "guestProcesses"
  | "guestSpareProcesses"
  | "guestIdleMs"
  | "guestFrameBytes"
  | "unfinishedGuestBytes"
  | "unfinishedGuestBytesPerTenant"
  | "guestBacklogBytes"
  | "guestStalledMs"
  | "inlineBodyBytes"
  | "strayLogLinesPerMinutePerTenant"
  | "messageValues"
  | "guestEventsPerCall"
  | "abandonedCallsPerProcess"
  | "callsPerTenant"
  | "guestProcessesPerTenant"
  | "scriptProcessesPerTenant"
  | "processStartsPerMinutePerTenant"
  | "processorMsPerSecondPerTenant"
  | "queuedCallsPerTenant"
  | "scriptProcesses"
  | "scriptMemoryMb"
  | "scriptDiskMb"
  | "scriptTasks"
  | "loadMs"
  | "loadElapsedMs"
  | "sandboxTrialMs"
>;

/** What every tenant may have where none has limits of its own. */
export function sameForAll(limits: ExecutorLimits): ExecutorTenantLimits {
  return {
    calls: limits.callsPerTenant,
    guestProcesses: limits.guestProcessesPerTenant,
    scriptProcesses: limits.scriptProcessesPerTenant,
    processStartsPerMinute: limits.processStartsPerMinutePerTenant,
    processorMsPerSecond: limits.processorMsPerSecondPerTenant,
  };
}
