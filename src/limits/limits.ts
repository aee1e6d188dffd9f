import { fixed } from "./fixed.ts";

/**
 * The limits that operators set, each by an environment variable (`limitVariable`). The name ends in the unit; without
 * one, it is a count. docs/settings.md is generated from these comments: what the limit bounds, and when to change it.
 */

/** The limits of requests, connections and shutdown. */
const requestLimits = {
  /** Size of one request body. Raise it for tools that take files or long texts. */
  bodyBytes: 4 * 1024 * 1024,
  /** Open connections of one process. Raise it, with the operating system's limit of open files, for many idle clients. */
  connections: 20_000,
  /** Open streams of one process. Raise it for many subscribed clients. */
  openStreams: 10_000,
  /** How long a connection may be idle between requests. Keep it above the idle timeout of your load balancer. */
  idleConnectionMs: 75_000,
  /** Interval of keep-alive comments on a quiet stream. Lower it if a proxy closes quiet streams sooner. */
  streamKeepAliveMs: 15_000,
  /** Age at which a session's stream asks its client to reconnect; 0 for never. Keep it below your proxy's longest connection. */
  streamConnectionMs: 300_000,
  /** Time from SIGTERM to the last new connection, while `/readyz` fails. Set it to the time your load balancer needs to notice. */
  drainMs: 0,
  /** Longest time from the last new connection to the end of the process. Raise it for long calls; keep it below your supervisor's grace period. */
  shutdownMs: 10_000,
};

/** The limits of tenants, tokens and anonymous callers. */
const shareLimits = {
  /** Concurrent requests of one tenant, open streams included, and of each of its principals. Lower it if one of them crowds out the others. */
  requestsPerTenant: 8_000,
  requestsPerPrincipal: 2_000,
  /** Requests per second of one tenant, and of each of its principals; 0 for no limit. Set it to sell or guarantee a rate. */
  requestsPerSecondPerTenant: 0,
  requestsPerSecondPerPrincipal: 0,
  /** Concurrent requests from one address without a valid token, and such requests per second, where a token is required. Raise it if many users share one address. */
  anonymousRequests: 500,
  anonymousRequestsPerSecond: 50,
  /** Open streams of one tenant, and of each of its principals. Raise it for many subscribed clients. */
  streamsPerTenant: 6_000,
  streamsPerPrincipal: 1_500,
  /** Concurrent tool calls of one tenant in one process; further ones wait. Lower it to keep a busy tenant from others. */
  callsPerTenant: 256,
  /** Guest processes of one tenant. Lower it if tenants run out of the machine's memory. */
  guestProcessesPerTenant: 48,
  /** Concurrent runs of a tenant's shell definitions. As above. */
  scriptProcessesPerTenant: 12,
  /** Upstream programs of one tenant in one process. As above. */
  upstreamProcessesPerTenant: 64,
  /** Processes that one tenant may start per minute, after a burst of as many as may run; 0 for no limit. Raise it for many short-lived upstreams. */
  processStartsPerMinutePerTenant: 240,
  /** CPU time in milliseconds that a tenant's guests and scripts may use per second; 0 for no limit. Set it where tenants share a machine. */
  cpuMsPerSecondPerTenant: 0,
  /** Saves of one tenant per minute. Raise it for a deployment that saves many servers at once. */
  savesPerMinutePerTenant: 600,
  /** Reviews of one tenant per minute, each of which may compile a definition. Raise it together with saves. */
  reviewsPerMinutePerTenant: 600,
  /** All that one tenant stores: contents, packages, compiled code, secrets, records and history. Set it by the disk you have. */
  storedBytesPerTenant: 4 * 1024 * 1024 * 1024,
};

/** The limits of logins, sessions, questions and tasks. */
const sessionLimits = {
  /** How long a browser stays signed in. Lower it for shared computers. */
  loginMs: 12 * 3_600_000,
  /** Legacy sessions of one process. Raise it for more clients of the 2025 revisions. */
  sessions: 10_000,
  /** Time after which an unused session ends. Lower it if clients leave many sessions behind. */
  sessionMs: 7 * 24 * 3_600_000,
  /** How long a client may take to answer a question. Raise it if people answer later. */
  answerMs: 600_000,
  /** How long a task may run, without its questions. Raise it for longer jobs. */
  taskMs: 3_600_000,
  /** How long a task and its result are stored, from its creation. Raise it if clients collect results later. */
  taskTtlMs: 86_400_000,
  /** Tasks that run at once in one process; one tenant gets three quarters of them. Raise it with the machine. */
  runningTasks: 128,
};

/** The limits of clusters. */
const clusterLimits = {
  /** Time after which a silent node counts as gone, and others take over. Raise it on a slow network. */
  nodeLeaseMs: 10_000,
  /** How long a node serves while it cannot reach the database. Then it refuses requests, since it misses revocations. Lower it for stricter revocation. */
  databaseOutageMs: 300_000,
};

/** The limits of calls and their results. */
const callLimits = {
  /** How long one call of a tool may take. Raise it for slow tools. */
  callMs: 30_000,
  /** Size of one call's result. Raise it for tools that return files. */
  outputBytes: 4 * 1024 * 1024,
  /** How often a call that fails with a transient error is retried. 0 to let clients retry. */
  retries: 3,
  /** Memory for the contracts of servers, per process. Raise it for thousands of servers. */
  catalogBytes: 128 * 1024 * 1024,
  /** Tools that `/metrics` shows separately; the others are counted together. Lower it if your monitoring pays by series. */
  metricTools: 500,
};

/** The limits of guest processes and scripts. */
const guestLimits = {
  /** Memory of one guest process. Raise it for definitions that process much data. */
  guestMemoryMb: 64,
  /** Size of a guest process's scratch folder, which the sandbox keeps in memory; also that of one script run. */
  guestDiskMb: 64,
  /** Guest processes of all tenants. Set it by the machine's memory. */
  guestProcesses: 64,
  /** Time after which an unused guest process ends. Lower it to save memory, raise it for fewer cold starts. */
  guestIdleMs: 300_000,
  /** Concurrent runs of shell definitions of all tenants. Set it by the machine's memory. */
  scriptProcesses: 16,
  /** Memory of one run of a shell definition. Raise it for heavier programs. */
  scriptMemoryMb: 256,
};

/** The limits of what guests reach on the network. */
const networkLimits = {
  /** How long one fetch of a guest may take, including both bodies. Raise it for slow services. */
  fetchMs: 60_000,
  /** Size of one response to a guest. Raise it for downloads. */
  fetchResponseBytes: 16 * 1024 * 1024,
  /** Fetches of one call. Raise it for tools that crawl. */
  fetchesPerCall: 100,
  /** Bytes per second over all sockets of a tenant's guests, in both directions; 0 for no limit. Set it where tenants share a link. */
  socketBytesPerSecondPerTenant: 64 * 1024 * 1024,
};

/** The limits of compilation and packages. */
const compileLimits = {
  /** CPU time to compile one definition. Raise it on slow machines. */
  compileMs: 10_000,
  /** Memory of the type checker. Raise it for definitions that import large packages. */
  compileMemoryMb: 384,
  /** Size of a definition's files together, and a quarter of it for one file. Raise it for large data files or skills. */
  sourceBytes: 4 * 1024 * 1024,
  /** Size of a definition's bundle. Raise it for large packages; guests read the bundle at each start. */
  bundleBytes: 8 * 1024 * 1024,
  /** Size of one npm package, unpacked. Raise it for a package that is refused. */
  packageUnpackedBytes: 128 * 1024 * 1024,
  /** Size of the tarballs of one tenant's packages. Raise it for more packages. */
  packageSetBytes: 256 * 1024 * 1024,
};

/** The limits of storage, history and state. */
const storeLimits = {
  /** Days for which a replaced or deleted version is kept, with the releases that need it; 0 for no expiry. Set it to bound the history. */
  historyDays: 0,
  /** Interval between garbage collections while Berth serves; 0 for none. Set 0 to run `berth collect` at a time of your choice. */
  collectIntervalMs: 21_600_000,
  /** Days after which a backup names itself due for deletion, because it holds what was deleted later; 0 for no date. */
  backupDays: 90,
  /** Keys and values of one server's state, together. Raise it for servers that store more. */
  stateBytesPerServer: 256 * 1024 * 1024,
  /** The same for all servers of a tenant. Set it by the disk you have. */
  stateBytesPerTenant: 1024 * 1024 * 1024,
};

/** The limits of upstreams. */
const upstreamLimits = {
  /** How long an upstream may take to start, including its first installation. Raise it for large installations. */
  upstreamStartMs: 300_000,
  /** How long one request to an upstream may take. Raise it for slow upstreams. */
  upstreamCallMs: 60_000,
  /** Time after which an unused upstream is ended; the next call starts it again. Raise it for upstreams that start slowly. */
  upstreamIdleMs: 300_000,
};

/** The limits of the audit log and retained calls. */
const recordLimits = {
  /** Days for which the audit log keeps a record; 0 for no expiry. Set it by your retention policy. */
  auditDays: 730,
  /** Days for which it keeps records of calls; 0 for no expiry. As above. */
  auditCallDays: 90,
  /** Bytes of one tenant's call records; 0 for no limit. Raise it for busy tenants. */
  auditCallBytesPerTenant: 256 * 1024 * 1024,
  /** Bytes of all other records of one tenant; 0 for no limit. Raise it for tenants that change much. */
  auditBytesPerTenant: 64 * 1024 * 1024,
  /** Longest time for which calls may be retained, in days. Lower it by your retention policy. */
  retainedCallDays: 30,
  /** Bytes of all retained calls of a tenant. Raise it to retain more. */
  retainedCallBytesPerTenant: 64 * 1024 * 1024,
};

const settable = {
  ...requestLimits,
  ...shareLimits,
  ...sessionLimits,
  ...clusterLimits,
  ...callLimits,
  ...guestLimits,
  ...networkLimits,
  ...compileLimits,
  ...storeLimits,
  ...upstreamLimits,
  ...recordLimits,
};

/** A limit that operators set. */
export type LimitSetting = keyof typeof settable;

export type Limits = Readonly<typeof settable & ReturnType<typeof derivedFrom>>;

/** Completes the limits that an operator set with the defaults and the derived ones. */
export function limitsFrom(set: Partial<typeof settable>): Limits {
  const settings = { ...settable, ...set };
  // `fixed`, so that tests can lower these before the configuration is read.
  return { ...settings, ...fixed(derivedFrom(settings)) };
}

/**
 * Limits that no operator sets: those that follow from others, shares, and memory budgets, which always fit the largest
 * message.
 */
function derivedFrom(limits: typeof settable) {
  const { bodyBytes, outputBytes } = limits;
  const guestFrameBytes = Math.max(4 * MIB, outputBytes);
  const upstreamMessageBytes = Math.max(16 * MIB, bodyBytes, 4 * outputBytes);
  return {
    /** Requests that may begin at once after a pause; 0 for as many as in one second. */
    requestBurstPerTenant: 0,
    requestBurstPerPrincipal: 0,
    anonymousRequestBurst: 10 * limits.anonymousRequestsPerSecond,
    /** Calls of one tenant that wait for a slot. */
    queuedCallsPerTenant: Math.max(1_024, 4 * limits.callsPerTenant),
    runningTasksPerTenant: Math.ceil((limits.runningTasks * 3) / 4),
    /** Arguments and answers of a tenant's running tasks. */
    runningTaskBytesPerTenant: Math.max(64 * MIB, bodyBytes),
    /** The received parts of incomplete request bodies. */
    ...budget("unfinishedBodyBytes", 256 * MIB, 64 * MIB, bodyBytes),
    /** The received parts of incomplete sign-ins, which count toward no tenant. */
    unfinishedSignInBytes: 4 * MIB,
    /** Bodies of waiting and running calls. */
    ...budget("heldBodyBytes", 384 * MIB, 128 * MIB, bodyBytes),
    /** Long answers and streams that clients have not read yet. Above it, the longest one is cut. */
    ...budget("unreadBytes", 512 * MIB, 256 * MIB, 4 * outputBytes),
    /** The same for one stream, and for a tenant's HTTP+SSE connections. */
    unreadStreamBytes: Math.max(16 * MIB, 4 * outputBytes),
    unreadSseBytesPerTenant: Math.max(64 * MIB, 4 * outputBytes),
    /** Long values that wait for a check. */
    ...budget("queuedCheckBytes", 256 * MIB, 64 * MIB, Math.max(bodyBytes, outputBytes)),
    /** Drafts of concurrent saves and reviews. */
    ...budget("draftBytes", 128 * MIB, 32 * MIB, bodyBytes),
    /** Compiled results of reviews, for the saves that may follow. */
    reviewedBytes: Math.max(64 * MIB, limits.bundleBytes),
    /** One message of a guest, which contains a whole result, and the received parts of incomplete messages. */
    guestFrameBytes,
    ...budget("unfinishedGuestBytes", 256 * MIB, 64 * MIB, guestFrameBytes),
    /**
     * One message of an upstream, the received parts of incomplete messages, and messages that a program has not read
     * yet.
     */
    upstreamMessageBytes,
    ...budget("unfinishedUpstreamBytes", 256 * MIB, 64 * MIB, upstreamMessageBytes),
    ...budget("programBacklogBytes", 384 * MIB, 128 * MIB, upstreamMessageBytes),
    /**
     * Events stored for all streams, and for those of one tenant. Above the total, events of the largest tenant are
     * dropped.
     */
    replayBytes: 64 * MIB,
    replayBytesPerTenant: 48 * MIB,
    sourceFileBytes: Math.ceil(limits.sourceBytes / 4),
    /** Scratch folder of one script run. */
    scriptDiskMb: limits.guestDiskMb,
    /** Guest processes that are started in advance. */
    guestSpareProcesses: 2,
    /** Log lines that guests write outside of calls, after an initial burst of 1,000. */
    strayLogLinesPerMinutePerTenant: 120,
    /** Sets of packages that are resolved or fetched simultaneously. */
    packageFetches: 2,
    /** Tarballs fetched for reviews, for the saves that may follow. */
    reviewedPackageBytes: 128 * MIB,
    /** Past entries of `mcps` that are cached for histories. */
    pastEntriesBytes: 32 * MIB,
    /** Calls of a tenant that wait to be retained; further ones are dropped. */
    queuedRetainedCallBytesPerTenant: 8 * MIB,
  };
}

const MIB = 1024 * 1024;

/** A memory budget for the messages of all tenants, and one for each tenant; both fit the largest message. */
function budget<Name extends string>(name: Name, bytes: number, tenantBytes: number, largest: number) {
  return { [name]: Math.max(bytes, largest), [`${name}PerTenant`]: Math.max(tenantBytes, largest) } as Record<
    Name | `${Name}PerTenant`,
    number
  >;
}

export const defaultLimits = limitsFrom({});

export const limitSettings = Object.keys(settable) as LimitSetting[];

/**
 * Limits on resources of the machine, which N workers divide. The value is the smallest useful share: a number, or the
 * name of the limit that has to fit into it.
 */
export const machineLimits = {
  unfinishedBodyBytes: "bodyBytes",
  unfinishedBodyBytesPerTenant: "bodyBytes",
  /** One sign-in: `SIGN_IN_BYTES`. */
  unfinishedSignInBytes: 8 * 1024,
  heldBodyBytes: "bodyBytes",
  heldBodyBytesPerTenant: "bodyBytes",
  unreadBytes: "unreadStreamBytes",
  unreadBytesPerTenant: "unreadStreamBytes",
  unreadSseBytesPerTenant: "outputBytes",
  queuedCheckBytes: "bodyBytes",
  queuedCheckBytesPerTenant: "bodyBytes",
  guestProcessesPerTenant: 1,
  scriptProcessesPerTenant: 1,
  processStartsPerMinutePerTenant: 1,
  cpuMsPerSecondPerTenant: 1,
  strayLogLinesPerMinutePerTenant: 1,
  /** The arguments or the result of one call. */
  queuedRetainedCallBytesPerTenant: 32 * 1024,
  draftBytes: "bodyBytes",
  draftBytesPerTenant: "bodyBytes",
  /** The events of one stream. */
  replayBytes: MIB / 4,
  replayBytesPerTenant: MIB / 4,
  runningTaskBytesPerTenant: "bodyBytes",
  /** One contract. */
  catalogBytes: MIB,
  reviewedBytes: "bundleBytes",
  /** One tarball. */
  reviewedPackageBytes: 32 * MIB,
  guestProcesses: 1,
  guestSpareProcesses: 1,
  scriptProcesses: 1,
  unfinishedGuestBytes: "guestFrameBytes",
  unfinishedGuestBytesPerTenant: "guestFrameBytes",
  packageFetches: 1,
  /** The longest `mcps`. */
  pastEntriesBytes: 4 * MIB,
  unfinishedUpstreamBytes: "upstreamMessageBytes",
  unfinishedUpstreamBytesPerTenant: "upstreamMessageBytes",
  programBacklogBytes: "upstreamMessageBytes",
  programBacklogBytesPerTenant: "upstreamMessageBytes",
} as const satisfies Partial<Record<keyof Limits, number | keyof Limits>>;

/** The limits of each of `workers` workers. */
export function workerLimits(limits: Limits, workers: number): Limits {
  const shares = Object.keys(machineLimits).map((name) => [
    name,
    workerShare(limits, name as keyof Limits, limits[name as keyof Limits], workers),
  ]);
  return { ...limits, ...(Object.fromEntries(shares) as Partial<Limits>) };
}

/** A worker's share of `value`, which is the limit or a tenant's own value for it. 0 stays 0, which means no limit. */
export function workerShare(limits: Limits, name: keyof Limits, value: number, workers: number): number {
  const least: number | keyof Limits | undefined = (
    machineLimits as Partial<Record<keyof Limits, number | keyof Limits>>
  )[name];
  if (least === undefined) return value;
  return Math.min(
    value,
    Math.max(typeof least === "number" ? least : limits[least], Math.floor(value / Math.max(1, workers))),
  );
}

/** The limits that a tenant can have of its own: the name in its record, and the limit that applies by default. */
export const tenantLimitNames = {
  requests: "requestsPerTenant",
  requestsPerSecond: "requestsPerSecondPerTenant",
  requestBurst: "requestBurstPerTenant",
  principalRequests: "requestsPerPrincipal",
  principalRequestsPerSecond: "requestsPerSecondPerPrincipal",
  principalRequestBurst: "requestBurstPerPrincipal",
  streams: "streamsPerTenant",
  principalStreams: "streamsPerPrincipal",
  calls: "callsPerTenant",
  guestProcesses: "guestProcessesPerTenant",
  scriptProcesses: "scriptProcessesPerTenant",
  upstreamProcesses: "upstreamProcessesPerTenant",
  processStartsPerMinute: "processStartsPerMinutePerTenant",
  cpuMsPerSecond: "cpuMsPerSecondPerTenant",
  savesPerMinute: "savesPerMinutePerTenant",
  reviewsPerMinute: "reviewsPerMinutePerTenant",
  storedBytes: "storedBytesPerTenant",
  historyDays: "historyDays",
  stateBytes: "stateBytesPerTenant",
} as const satisfies Readonly<Record<string, keyof Limits>>;

/** The limits of one tenant. */
export type TenantLimits = Readonly<Record<keyof typeof tenantLimitNames, number>>;

function isSetting(limit: string): limit is LimitSetting {
  return Object.hasOwn(settable, limit);
}

/** `callMs` → `BERTH_CALL_MS`. */
export function limitVariable(limit: LimitSetting): string {
  return `BERTH_${limit.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** The names of the settings that change a tenant's limit, for messages: its own, then the default of all tenants. */
export function tenantSetting(name: keyof TenantLimits): string {
  const limit = tenantLimitNames[name];
  return isSetting(limit) ? `its limit ${name}, else ${limitVariable(limit)}` : `its limit ${name}`;
}

/** How often one request may continue after a question, so that a tool cannot ask forever. Not configurable. */
export const QUESTION_ROUNDS_MAX = 20;
