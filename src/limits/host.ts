/** The limits of one call, of a server's parts, and of what is reported about it. */
export const hostLimits = {
  outputBytes: 4 * 1024 * 1024,
  callMs: 30_000,
  /** How long, and with how much memory, the checking process may validate a value or compile a schema. */
  checkMs: 3_000,
  checkMemoryMb: 256,
  /** How often a call that ends with a transient error is retried, and the longest first wait before that. */
  retries: 3,
  retryMs: 200,
  /** How often one call or read may be forwarded to another function, by redirects and function addresses. */
  followedUris: 5,
  /** Names in the query of a function's address. */
  queryNames: 256,
  /** How long a transform of an entry of `mcps` may take. */
  transformMs: 10_000,
  /** The JSON that a transform returns. */
  transformBytes: 1024 * 1024,
  transformItems: 1000,
  catalogs: 512,
  /** The contracts of these catalogs: their JSON, and 64 bytes for each value in it. */
  catalogBytes: 128 * 1024 * 1024,
  /** Likewise for all servers of a tenant that are offered together at /mcp. */
  allServersBytes: 32 * 1024 * 1024,
  /** Results compiled for reviews, which are kept in memory for the saves that may follow. */
  reviewedBytes: 64 * 1024 * 1024,
  /**
   * How often the functions of one server may hide and show what it offers, which is also the initial burst; 0 for no
   * limit.
   */
  visibilityChangesPerMinute: 60,
  /** Calls of a server that its page lists: times, outcomes and sizes. */
  recentCalls: 50,
  /** Failures of a server's functions and their log lines, together, that its page shows its authors. */
  recentLines: 20,
  /** Servers of all tenants for which such lines are kept in memory; the longest silent are forgotten first. */
  recentLinesServers: 1_000,
  /** Tools that `/metrics` shows separately; all others are counted together. */
  metricTools: 500,
};
