import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";

/** One tenant's share of the service. Limits that the tenant's own record does not set have the service's defaults. */
export interface TenantLimits {
  /** Requests under way at once, open streams among them. */
  readonly requests: number;
  /** Requests that may begin in a second; 0 means no limit. */
  readonly requestsPerSecond: number;
  /** Requests that may begin at once after a pause; 0 means as many as in a second. */
  readonly requestBurst: number;
  /** The same three for each token or person of the tenant. */
  readonly principalRequests: number;
  readonly principalRequestsPerSecond: number;
  readonly principalRequestBurst: number;
  /** Streams that stay open until their clients leave; they count as requests under way, too. */
  readonly streams: number;
  /** The same for each token or person of the tenant. */
  readonly principalStreams: number;
  /** Calls of functions that run at once. */
  readonly calls: number;
  /** Processes of guest code, each with the memory that a guest may have. */
  readonly guestProcesses: number;
  /** Runs of shell definitions at once. */
  readonly scriptProcesses: number;
  /** Programs of upstreams that run as hosted servers. */
  readonly upstreamProcesses: number;
  /** Starts of guest processes and of upstream programs; 0 means no limit. */
  readonly processStartsPerMinute: number;
  /** Processor time that its guests and scripts may use in a second, together; 0 means no limit. */
  readonly processorMsPerSecond: number;
  /** Saves that change something; 0 means no limit. */
  readonly savesPerMinute: number;
  /** Reviews of unsaved changes; 0 means no limit. */
  readonly reviewsPerMinute: number;
  /** Bytes of content that it has a claim on, and of the code compiled from it. */
  readonly storedBytes: number;
}

export interface TenantLimitDefaults {
  readonly requestsPerTenant: number;
  readonly requestsPerSecondPerTenant: number;
  readonly requestBurstPerTenant: number;
  readonly requestsPerPrincipal: number;
  readonly requestsPerSecondPerPrincipal: number;
  readonly requestBurstPerPrincipal: number;
  readonly streamsPerTenant: number;
  readonly streamsPerPrincipal: number;
  readonly callsPerTenant: number;
  readonly guestProcessesPerTenant: number;
  readonly scriptProcessesPerTenant: number;
  readonly upstreamProcessesPerTenant: number;
  readonly processStartsPerMinutePerTenant: number;
  readonly processorMsPerSecondPerTenant: number;
  readonly savesPerMinutePerTenant: number;
  readonly reviewsPerMinutePerTenant: number;
  readonly storedBytesPerTenant: number;
}

export function tenantLimits(defaults: TenantLimitDefaults, own: JsonObject = {}): TenantLimits {
  const limits: TenantLimits = {
    requests: defaults.requestsPerTenant,
    requestsPerSecond: defaults.requestsPerSecondPerTenant,
    requestBurst: defaults.requestBurstPerTenant,
    principalRequests: defaults.requestsPerPrincipal,
    principalRequestsPerSecond: defaults.requestsPerSecondPerPrincipal,
    principalRequestBurst: defaults.requestBurstPerPrincipal,
    streams: defaults.streamsPerTenant,
    principalStreams: defaults.streamsPerPrincipal,
    calls: defaults.callsPerTenant,
    guestProcesses: defaults.guestProcessesPerTenant,
    scriptProcesses: defaults.scriptProcessesPerTenant,
    upstreamProcesses: defaults.upstreamProcessesPerTenant,
    processStartsPerMinute: defaults.processStartsPerMinutePerTenant,
    processorMsPerSecond: defaults.processorMsPerSecondPerTenant,
    savesPerMinute: defaults.savesPerMinutePerTenant,
    reviewsPerMinute: defaults.reviewsPerMinutePerTenant,
    storedBytes: defaults.storedBytesPerTenant,
  };
  return { ...limits, ...own };
}

const NAMES = [
  "requests",
  "requestsPerSecond",
  "requestBurst",
  "principalRequests",
  "principalRequestsPerSecond",
  "principalRequestBurst",
  "streams",
  "principalStreams",
  "calls",
  "guestProcesses",
  "scriptProcesses",
  "upstreamProcesses",
  "processStartsPerMinute",
  "processorMsPerSecond",
  "savesPerMinute",
  "reviewsPerMinute",
  "storedBytes",
] as const satisfies readonly (keyof TenantLimits)[];

/**
 * Applies a tenant's own limits that a person wrote, each `name=number`; a name without a number takes the default
 * again. Throws `tenant_invalid` with every problem at once.
 */
export function readTenantLimits(before: JsonObject, texts: readonly string[]): JsonObject {
  const limits: JsonObject = { ...before };
  const problems: string[] = [];
  for (const text of texts) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(text) ?? [];
    if (!(NAMES as readonly string[]).includes(name)) {
      problems.push(`there is no limit "${name}"; there are ${NAMES.join(", ")}`);
    } else if (value === "") {
      delete limits[name];
    } else if (!/^\d{1,15}$/.test(value)) {
      problems.push(`"${name}" must be a whole number, not "${value}"`);
    } else {
      limits[name] = Number(value);
    }
  }
  if (problems.length > 0) throw new BerthError("tenant_invalid", problems.join("; "));
  return limits;
}

/** Sentences about the faults of a tenant's own limits. */
export function tenantLimitProblems(limits: JsonObject): string[] {
  return Object.entries(limits).flatMap(([name, value]) => {
    if (!(NAMES as readonly string[]).includes(name))
      return [`there is no limit ${JSON.stringify(name.slice(0, 100))}`];
    const isRight = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
    return isRight ? [] : [`the limit "${name}" must be a whole number`];
  });
}
