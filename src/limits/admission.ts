/** What tenants, tokens and strangers may take of what all share. */
export const admissionLimits = {
  /** Requests of one tenant under way at once, open streams among them; and of each of its tokens or persons. */
  requestsPerTenant: 8_000,
  requestsPerPrincipal: 2_000,
  /** Requests that may begin in a second; 0 is as many as come. */
  requestsPerSecondPerTenant: 0,
  requestsPerSecondPerPrincipal: 0,
  /** Requests that may begin at once after a time of rest; 0 is what a second allows. */
  requestBurstPerTenant: 0,
  requestBurstPerPrincipal: 0,
  /** Requests without a valid token, where one is asked for: of one address under way at once, and begun in a second. */
  strangerRequests: 500,
  strangerRequestsPerSecond: 50,
  strangerRequestBurst: 500,
  /** Addresses that are remembered for it; all others count together. */
  strangerAddresses: 10_000,
  /** Streams that stand until their clients leave: subscriptions, those of sessions, connections of HTTP+SSE. */
  streamsPerTenant: 6_000,
  streamsPerPrincipal: 1_500,
  callsPerTenant: 256,
  queuedCallsPerTenant: 1024,
  /** Values that wait to be checked: first ones of a tool, wrong ones, large and intricate ones. */
  queuedChecksPerTenant: 1_024,
  /** What is long in them, of all tenants together and of each. */
  queuedCheckBytes: 256 * 1024 * 1024,
  queuedCheckBytesPerTenant: 64 * 1024 * 1024,
  guestProcessesPerTenant: 48,
  /** Runs of shell definitions at once. */
  scriptProcessesPerTenant: 12,
  /** Programs of others, each started for one hosted server. */
  upstreamProcessesPerTenant: 64,
  /** Starts of guest processes, and of programs of others, each, after as many at once as there may be of them; 0 is as many as come. */
  processStartsPerMinutePerTenant: 240,
  /** Milliseconds of processor time that guests and scripts of one tenant may use in a second, together; 0 is as much as there is. */
  processorMsPerSecondPerTenant: 0,
  /** Lines of guests that belong to no call, of which the log gets so many, after 1,000 at once; 0 is as many as come. */
  strayLogLinesPerMinutePerTenant: 120,
  /** Saves that change something, after a quarter of it at once; 0 is as many as come. */
  savesPerMinutePerTenant: 600,
  /** Reviews of what nobody has saved yet, each of which may compile a definition; counted as saves are. */
  reviewsPerMinutePerTenant: 600,
  /** Saves and reviews of one tenant under way at once, most of which wait for the compiler. */
  draftsPerTenant: 128,
  /** What is held of their drafts, of all tenants together and of each. */
  draftBytes: 128 * 1024 * 1024,
  draftBytesPerTenant: 32 * 1024 * 1024,
  /** Of all content that one tenant has a claim on, and of what was compiled of it. */
  storedBytesPerTenant: 4 * 1024 * 1024 * 1024,
  /** After which a tenant that nobody uses is forgotten until somebody asks for something of it. */
  tenantIdleMs: 3_600_000,
};
