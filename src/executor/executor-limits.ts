import type { Limits } from "../limits/limits.ts";

/** One tenant's limits of concurrent calls and of guest and script processes and their resources. */
export interface ExecutorTenantLimits {
  readonly calls: number;
  readonly guestProcesses: number;
  readonly scriptProcesses: number;
  readonly processStartsPerMinute: number;
  readonly cpuMsPerSecond: number;
}

/** Gives every tenant the same limits. */
export function sameForAll(limits: Limits): ExecutorTenantLimits {
  return {
    calls: limits.callsPerTenant,
    guestProcesses: limits.guestProcessesPerTenant,
    scriptProcesses: limits.scriptProcessesPerTenant,
    processStartsPerMinute: limits.processStartsPerMinutePerTenant,
    cpuMsPerSecond: limits.cpuMsPerSecondPerTenant,
  };
}

/** The memory limit of a guest process: its heap, as much again in buffers, and the runtime with young objects. */
export function guestProcessMemoryMb(guestMemoryMb: number): number {
  return 2 * guestMemoryMb + 128;
}
