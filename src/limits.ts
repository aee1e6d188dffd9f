/** Every limit of the service: its name ends in its unit. */
export interface Limits {
  readonly bodyBytes: number;
  readonly headersMs: number;
  readonly requestMs: number;
  readonly headerBytes: number;
  readonly connections: number;
  /** Between two requests on one connection. */
  readonly idleConnectionMs: number;
  /** How long a client may take none of what is sent to it. */
  readonly stalledMs: number;
  /** Answers under way that are streams or may become some. */
  readonly openStreams: number;
  /** Between two signs of life on a quiet stream. */
  readonly streamCommentMs: number;
  readonly outputBytes: number;
  readonly callMs: number;
  /** How often a call that ends with a transient error is tried again, and the longest first wait before it. */
  readonly retries: number;
  readonly retryMs: number;
  /** How often one call or read may be led on to another function, by redirects and by addresses of functions. */
  readonly followedUris: number;
  readonly guestMemoryMb: number;
  readonly guestProcesses: number;
  readonly guestSpareProcesses: number;
  readonly guestIdleMs: number;
  /** After which a tenant that nobody uses is forgotten until somebody asks for something of it. */
  readonly tenantIdleMs: number;
  readonly guestFrameBytes: number;
  readonly guestEventsPerCall: number;
  /** Requests of one tenant under way at once, open streams among them; and of each of its tokens or persons. */
  readonly requestsPerTenant: number;
  readonly requestsPerPrincipal: number;
  /** Requests that may begin in a second; 0 is as many as come. */
  readonly requestsPerSecondPerTenant: number;
  readonly requestsPerSecondPerPrincipal: number;
  /** Requests that may begin at once after a time of rest; 0 is what a second allows. */
  readonly requestBurstPerTenant: number;
  readonly requestBurstPerPrincipal: number;
  /** Requests without a valid token, where one is asked for: of one address under way at once, and begun in a second. */
  readonly strangerRequests: number;
  readonly strangerRequestsPerSecond: number;
  readonly strangerRequestBurst: number;
  /** Addresses that are remembered for it; all others count together. */
  readonly strangerAddresses: number;
  readonly guestProcessesPerTenant: number;
  /** Runs of shell definitions at once. */
  readonly scriptProcessesPerTenant: number;
  /** Programs of others, each started for one hosted server. */
  readonly upstreamProcessesPerTenant: number;
  /** Starts of guest processes, and of programs of others, each, after as many at once as there may be of them; 0 is as many as come. */
  readonly processStartsPerMinutePerTenant: number;
  /** Saves that change something, after a quarter of it at once; 0 is as many as come. */
  readonly savesPerMinutePerTenant: number;
  /** Streams that stand until their clients leave: subscriptions, those of sessions, connections of HTTP+SSE. */
  readonly streamsPerTenant: number;
  readonly streamsPerPrincipal: number;
  /** Of all content that one tenant has a claim on. */
  readonly storedBytesPerTenant: number;
  readonly callsPerTenant: number;
  readonly queuedCallsPerTenant: number;
  /** One fetch of a guest, both bodies included. */
  readonly fetchMs: number;
  readonly fetchRequestBytes: number;
  /** Of a body as the guest gets it, which may have come compressed. */
  readonly fetchResponseBytes: number;
  /** All of one call, one after the other or at once. */
  readonly fetchesPerCall: number;
  /** At once, all calls of a server together. */
  readonly openFetches: number;
  readonly scriptProcesses: number;
  readonly scriptMemoryMb: number;
  readonly scriptDiskMb: number;
  readonly scriptTasks: number;
  readonly compileMs: number;
  readonly compileMemoryMb: number;
  readonly sourceFileBytes: number;
  /** All files of one definition together. */
  readonly sourceBytes: number;
  readonly sourceFiles: number;
  /** A variable's value, or an entry of `mcps`. */
  readonly variableBytes: number;
  /** A secret's value. */
  readonly secretBytes: number;
  readonly secretsPerTenant: number;
  /** A tenant's file that is imported, and its longest line, which is a content. */
  readonly importBytes: number;
  readonly importLineBytes: number;
  readonly catalogs: number;
  /** Calls of a server that its page tells of: times, outcomes and sizes. */
  readonly recentCalls: number;
  /** Tools that `/metrics` shows apart; all others are counted together. */
  readonly metricTools: number;
  /** How long a transform of an entry of `mcps` may take. */
  readonly transformMs: number;
  /** Of the JSON that a transform returns. */
  readonly transformBytes: number;
  readonly transformItems: number;
  /** How long a modern client may take to come again with the answers to questions. */
  readonly requestStateMs: number;
  /** Legacy sessions that the process remembers. */
  readonly sessions: number;
  readonly sessionMs: number;
  /** Open connections of HTTP+SSE, the transport of 2024-11-05. */
  readonly sseConnections: number;
  readonly sseConnectionsPerTenant: number;
  readonly streamsPerSession: number;
  readonly subscriptionsPerSession: number;
  /** Kept on each stream of a session for a client that lost its connection. */
  readonly streamEvents: number;
  readonly streamBytes: number;
  /** Kept on all streams together, and for how long after a stream ended or its client left. */
  readonly replayBytes: number;
  readonly replayMs: number;
  /** After which a stream whose process says nothing any more counts as broken off. */
  readonly streamLeaseMs: number;
  /** What a client is told to wait before it takes up a stream again. */
  readonly streamRetryMs: number;
  /** How long one connection of a session's stream lasts before the client is sent to come again; 0 is for ever. */
  readonly connectionMs: number;
  /** Until a call that has said nothing gets a stream, so that it outlives its connection. */
  readonly silentCallMs: number;
  /** How long a client, or the person before it, may take for the answer to a question. */
  readonly answerMs: number;
  readonly batchMessages: number;
  /** How long a task may run, all its rounds of questions together not counted. */
  readonly taskMs: number;
  /** How long a task is kept, from its creation. */
  readonly taskTtlMs: number;
  /** After which a task whose process says nothing any more counts as lost. */
  readonly taskLeaseMs: number;
  /** Tasks that run at once in one process. */
  readonly runningTasks: number;
  readonly runningTasksPerTenant: number;
  /** After which a client that listens is asked whether it is there, and how long it may take to say so. */
  readonly pingMs: number;
  /** Between a signal to end and the end of new connections: `/readyz` says so meanwhile. */
  readonly drainMs: number;
  readonly shutdownMs: number;
  /** For a server of others to start and say hello; its first installation included. */
  readonly upstreamStartMs: number;
  /** Until a server that says nothing to a modern hello is greeted the legacy way, too. */
  readonly upstreamProbeMs: number;
  /** One call, read or list of a server of others. */
  readonly upstreamCallMs: number;
  /** Between the ways to end a child: end of input, SIGTERM, SIGKILL. */
  readonly upstreamEndMs: number;
  /** The longest message of a server of others. */
  readonly upstreamMessageBytes: number;
  /** What may come on its stdout between two messages and be none. */
  readonly upstreamGarbageBytes: number;
  /** Above which a server of others waits before more is read of it. */
  readonly upstreamNotificationsPerSecond: number;
  /** The end of stderr that is kept for errors. */
  readonly upstreamStderrBytes: number;
  readonly upstreamListPages: number;
  readonly upstreamListItems: number;
  /** Rounds of questions in one call. */
  readonly upstreamRounds: number;
  /** After which a hosted server of others that nobody uses is ended; it is started again on demand. */
  readonly upstreamIdleMs: number;
  /** Requests at once to one of them. */
  readonly upstreamRequests: number;
  /** Between a failed start and the next: the first wait, and the longest. */
  readonly upstreamBackoffMs: number;
  readonly upstreamBackoffMaxMs: number;
  /** How long a question waits until it is clear which call it belongs to. */
  readonly upstreamQuestionMs: number;
  /** Calls at once that wait for the answer to a question of a server of others. */
  readonly upstreamSuspended: number;
  /** Servers that are kept connected for whoever explores them. */
  readonly exploredServers: number;
  /** Access tokens that are known again without a look into the store, or at their signature. */
  readonly knownTokens: number;
  /** How long the signature of an access token is believed without looking at it again. */
  readonly verifiedTokenMs: number;
  /** Between two looks for a key of an authorization server that was not there. */
  readonly jwksCooldownMs: number;
  /** After which the keys of an authorization server are read again. */
  readonly jwksMaxAgeMs: number;
  /** One request to an authorization server, and its answer. */
  readonly issuerMs: number;
  readonly issuerBytes: number;
  /** How long the audit log keeps anything, and how long the contents of its calls; 0 is for ever. */
  readonly auditDays: number;
  readonly auditCallDays: number;
  /** Of each tenant, kept in the audit log: of calls, and of all else; 0 is without a limit. */
  readonly auditCallBytesPerTenant: number;
  readonly auditBytesPerTenant: number;
  /** Calls of one tenant that wait to be recorded; those beyond are only counted. */
  readonly auditQueuedCalls: number;
  /** How long a call that has ended waits to be recorded. */
  readonly auditDelayMs: number;
  /** Refused attempts on one tenant that are recorded by themselves; those beyond are only counted. */
  readonly auditRefusalsPerMinute: number;
  /** Links of the audit log that one page of a search looks through. */
  readonly auditSearchLinks: number;
  /** Requests with access tokens that wait at once for the keys of one authorization server. */
  readonly issuerWaiting: number;
  /** Authorization servers whose keys are kept, one of each tenant. */
  readonly issuers: number;
}

export const defaultLimits: Limits = {
  bodyBytes: 4 * 1024 * 1024,
  headersMs: 10_000,
  requestMs: 30_000,
  headerBytes: 16 * 1024,
  connections: 20_000,
  idleConnectionMs: 5_000,
  stalledMs: 60_000,
  openStreams: 10_000,
  streamCommentMs: 15_000,
  outputBytes: 4 * 1024 * 1024,
  callMs: 30_000,
  retries: 3,
  retryMs: 200,
  followedUris: 5,
  guestMemoryMb: 64,
  guestProcesses: 64,
  guestSpareProcesses: 2,
  guestIdleMs: 300_000,
  tenantIdleMs: 3_600_000,
  guestFrameBytes: 4 * 1024 * 1024,
  guestEventsPerCall: 10_000_000,
  requestsPerTenant: 8_000,
  requestsPerPrincipal: 2_000,
  requestsPerSecondPerTenant: 0,
  requestsPerSecondPerPrincipal: 0,
  requestBurstPerTenant: 0,
  requestBurstPerPrincipal: 0,
  strangerRequests: 500,
  strangerRequestsPerSecond: 50,
  strangerRequestBurst: 500,
  strangerAddresses: 10_000,
  guestProcessesPerTenant: 48,
  scriptProcessesPerTenant: 12,
  upstreamProcessesPerTenant: 32,
  processStartsPerMinutePerTenant: 240,
  savesPerMinutePerTenant: 600,
  streamsPerTenant: 6_000,
  streamsPerPrincipal: 1_500,
  storedBytesPerTenant: 4 * 1024 * 1024 * 1024,
  callsPerTenant: 256,
  queuedCallsPerTenant: 1024,
  fetchMs: 60_000,
  fetchRequestBytes: 16 * 1024 * 1024,
  fetchResponseBytes: 16 * 1024 * 1024,
  fetchesPerCall: 100,
  openFetches: 32,
  scriptProcesses: 16,
  scriptMemoryMb: 256,
  scriptDiskMb: 64,
  scriptTasks: 64,
  compileMs: 10_000,
  compileMemoryMb: 384,
  sourceFileBytes: 1024 * 1024,
  sourceBytes: 4 * 1024 * 1024,
  sourceFiles: 256,
  variableBytes: 1024 * 1024,
  secretBytes: 64 * 1024,
  secretsPerTenant: 1000,
  importBytes: 8 * 1024 * 1024 * 1024,
  importLineBytes: 16 * 1024 * 1024,
  catalogs: 512,
  recentCalls: 50,
  metricTools: 500,
  transformMs: 10_000,
  transformBytes: 1024 * 1024,
  transformItems: 1000,
  requestStateMs: 1_800_000,
  sessions: 10_000,
  sessionMs: 7 * 24 * 3_600_000,
  sseConnections: 1000,
  sseConnectionsPerTenant: 750,
  streamsPerSession: 32,
  subscriptionsPerSession: 256,
  streamEvents: 1000,
  streamBytes: 256 * 1024,
  replayBytes: 64 * 1024 * 1024,
  replayMs: 300_000,
  streamLeaseMs: 3_000,
  streamRetryMs: 1000,
  connectionMs: 300_000,
  silentCallMs: 100,
  answerMs: 600_000,
  batchMessages: 100,
  taskMs: 3_600_000,
  taskTtlMs: 86_400_000,
  taskLeaseMs: 15_000,
  runningTasks: 128,
  runningTasksPerTenant: 96,
  pingMs: 120_000,
  drainMs: 0,
  shutdownMs: 10_000,
  upstreamStartMs: 300_000,
  upstreamProbeMs: 10_000,
  upstreamCallMs: 60_000,
  upstreamEndMs: 2_000,
  upstreamMessageBytes: 16 * 1024 * 1024,
  upstreamGarbageBytes: 1024 * 1024,
  upstreamNotificationsPerSecond: 5000,
  upstreamStderrBytes: 8 * 1024,
  upstreamListPages: 100,
  upstreamListItems: 10_000,
  upstreamRounds: 10,
  upstreamIdleMs: 300_000,
  upstreamRequests: 256,
  upstreamBackoffMs: 500,
  upstreamBackoffMaxMs: 60_000,
  upstreamQuestionMs: 2_000,
  upstreamSuspended: 1_000,
  exploredServers: 8,
  knownTokens: 10_000,
  verifiedTokenMs: 60_000,
  jwksCooldownMs: 30_000,
  jwksMaxAgeMs: 600_000,
  issuerMs: 5_000,
  issuerBytes: 256 * 1024,
  auditDays: 730,
  auditCallDays: 90,
  auditCallBytesPerTenant: 256 * 1024 * 1024,
  auditBytesPerTenant: 64 * 1024 * 1024,
  auditQueuedCalls: 10_000,
  auditDelayMs: 1_000,
  auditRefusalsPerMinute: 20,
  auditSearchLinks: 1_000,
  issuerWaiting: 256,
  issuers: 256,
};

/** `callMs` → `BERTH_CALL_MS`. */
export function limitVariable(limit: string): string {
  return `BERTH_${limit.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
