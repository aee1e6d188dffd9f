/** The limits of what tenants, tokens and strangers may take of shared resources. */
export const admissionLimits = {
  /** Concurrent requests of one tenant, including open streams; and of each of its tokens or persons. */
  requestsPerTenant: 8_000,
  requestsPerPrincipal: 2_000,
  /** Requests that may begin in a second; 0 for no limit. */
  requestsPerSecondPerTenant: 0,
  requestsPerSecondPerPrincipal: 0,
  /** Requests that may begin at once after a time of rest; 0 for the number per second. */
  requestBurstPerTenant: 0,
  requestBurstPerPrincipal: 0,
  /** Requests without a valid token, where one is required: concurrent ones of one address, and ones per second. */
  strangerRequests: 500,
  strangerRequestsPerSecond: 50,
  strangerRequestBurst: 500,
  /** Addresses that are tracked for this; all others count together. */
  strangerAddresses: 10_000,
  /** Streams that stay open until their clients leave: subscriptions, those of sessions, connections of HTTP+SSE. */
  streamsPerTenant: 6_000,
  streamsPerPrincipal: 1_500,
  callsPerTenant: 256,
  queuedCallsPerTenant: 1024,
  /** Values that wait to be checked: first ones of a tool, wrong ones, large and intricate ones. */
  queuedChecksPerTenant: 1_024,
  /** The long texts in them, of all tenants together and of each. */
  queuedCheckBytes: 256 * 1024 * 1024,
  queuedCheckBytesPerTenant: 64 * 1024 * 1024,
  guestProcessesPerTenant: 48,
  /** Concurrent runs of shell definitions. */
  scriptProcessesPerTenant: 12,
  /** Upstream programs, each started for one hosted server. */
  upstreamProcessesPerTenant: 64,
  /**
   * Starts of guest processes and of upstream programs, each, after an initial burst of as many as may run; 0 for no
   * limit.
   */
  processStartsPerMinutePerTenant: 240,
  /**
   * Milliseconds of processor time that guests and scripts of one tenant may use in a second, together; 0 for no limit.
   */
  processorMsPerSecondPerTenant: 0,
  /** Lines of guests outside any call that the log gets, after an initial burst of 1,000; 0 for no limit. */
  strayLogLinesPerMinutePerTenant: 120,
  /** Saves that change something, after an initial burst of a quarter of it; 0 for no limit. */
  savesPerMinutePerTenant: 600,
  /** Reviews of unsaved drafts, each of which may compile a definition; counted as saves are. */
  reviewsPerMinutePerTenant: 600,
  /** Concurrent saves and reviews of one tenant, most of which wait for the compiler. */
  draftsPerTenant: 128,
  /** The memory for their drafts, of all tenants together and of each. */
  draftBytes: 128 * 1024 * 1024,
  draftBytesPerTenant: 32 * 1024 * 1024,
  /** All content that one tenant claims, and everything compiled from it. */
  storedBytesPerTenant: 4 * 1024 * 1024 * 1024,
  /** The time after which an unused tenant is unloaded until the next request for it. */
  tenantIdleMs: 3_600_000,
};
