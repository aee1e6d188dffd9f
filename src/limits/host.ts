/** What one call may take, what a server is made of, and what is told of it. */
export const hostLimits = {
  outputBytes: 4 * 1024 * 1024,
  callMs: 30_000,
  /**
   * How long, and with how much memory, a value may be held against a schema by the process for it, and a schema be made
   * ready.
   */
  checkMs: 3_000,
  checkMemoryMb: 256,
  /** How often a call that ends with a transient error is tried again, and the longest first wait before it. */
  retries: 3,
  retryMs: 200,
  /** How often one call or read may be led on to another function, by redirects and by addresses of functions. */
  followedUris: 5,
  /** Names in the query of an address of a function. */
  queryNames: 256,
  /** How long a transform of an entry of `mcps` may take. */
  transformMs: 10_000,
  /** Of the JSON that a transform returns. */
  transformBytes: 1024 * 1024,
  transformItems: 1000,
  catalogs: 512,
  /** The contracts of these: their JSON, and 64 bytes for each value in it. */
  catalogBytes: 128 * 1024 * 1024,
  /** The same of all servers of a tenant that are offered together at /mcp. */
  allServersBytes: 32 * 1024 * 1024,
  /** What reviews have compiled, which is kept in memory for the saves that may follow. */
  reviewedBytes: 64 * 1024 * 1024,
  /** How often the functions of one server may hide and show what it offers, as many at once after a time of rest; 0 is as often as they like. */
  visibilityChangesPerMinute: 60,
  /** Calls of a server that its page tells of: times, outcomes and sizes. */
  recentCalls: 50,
  /** Failures of its functions, and lines that they log or print, together, that a server's page tells its authors of. */
  recentLines: 20,
  /** Servers of all tenants of which such lines are kept in memory; those of whichever has been silent for longest are forgotten. */
  recentLinesServers: 1_000,
  /** Tools that `/metrics` shows apart; all others are counted together. */
  metricTools: 500,
};
