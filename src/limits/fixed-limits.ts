/**
 * The limits that no operator needs to change. They are enforced like the others; tests lower them.
 */

/** The limits of connections, requests and streams over HTTP, and the times of a shutdown. */
const httpLimits = {
  /** A longer body or function result is read, checked and written by the check process. */
  inlineBodyBytes: 64 * 1024,
  /** Values of one longer message, such as members and items, besides the arguments or the result of its call. */
  messageValues: 40_000,
};

/** The limits of what tenants, tokens and anonymous callers may take of shared resources. */
const admissionLimits = {
  /** Values that wait to be checked: first ones of a tool, wrong ones, large and intricate ones. */
  queuedChecksPerTenant: 1_024,
  /** Lines of guests outside any call that the log gets, after an initial burst of 1,000; 0 for no limit. */
  strayLogLinesPerMinutePerTenant: 120,
  /** Concurrent saves and reviews of one tenant, most of which wait for the compiler. */
  draftsPerTenant: 128,
};

/** The limits of consent. */
const mcpLimits = {
  /** How long a user may take to consent to a call that its entry's "consent" asks about. */
  consentMs: 300_000,
  /** The arguments of such a call that the user is shown; longer ones are cut in their middle. */
  consentCharacters: 4_000,
};

/** The limits of one call, of a server's parts, and of what is reported about it. */
const hostLimits = {
  /** How long, and with how much memory, the check process may validate a value or compile a schema. */
  checkMs: 3_000,
  checkMemoryMb: 256,
  /** How often one call or read may be forwarded to another function, by redirects and function addresses. */
  followedUris: 5,
  /** Names in the query of a function's address. */
  queryNames: 256,
  /** How long a transform of an entry of `mcps` may take. */
  transformMs: 10_000,
  /** The JSON that a transform returns. */
  transformBytes: 1024 * 1024,
  /** Tools, resources or prompts that a transform returns. */
  transformItems: 1000,
  /** Catalogs that are kept in memory; the longest unused one goes first. */
  catalogs: 512,
  /** Likewise for all servers of a tenant that are offered together at /mcp. */
  allServersBytes: 32 * 1024 * 1024,
  /** Tarballs of packages that were fetched for reviews, which are kept in memory for the saves that may follow. */
  reviewedPackageBytes: 128 * 1024 * 1024,
  /**
   * How often the functions of one server may hide and show what it offers, which is also the initial burst; 0 for no
   * limit.
   */
  visibilityChangesPerMinute: 60,
  /** Calls of a server that its page lists: times, outcomes and sizes. */
  recentCalls: 50,
  /**
   * Servers of all tenants whose calls of the last hour are counted for the list of servers; the longest silent are
   * forgotten first.
   */
  countedServers: 10_000,
  /** Failures of a server's functions and their log lines, together, that its page shows its authors. */
  recentLines: 20,
  /** Servers of all tenants for which such lines are kept in memory; the longest silent are forgotten first. */
  recentLinesServers: 1_000,
};

/** The limits of guests and scripts: processes, memory and output. */
const executorLimits = {
  /** How long a call waits for the file system of a folder that its server is given. */
  folderMs: 5_000,
  /** The code of definitions that is kept in memory, so that a process starts without reading it from the store. */
  keptCodeBytes: 32 * 1024 * 1024,
  /** Guest processes that are started before anybody needs them. */
  guestSpareProcesses: 2,
  /** The environment that an entry gives its code: names and values together. */
  environmentBytes: 256 * 1024,
};

/** The limits of npm packages. */
const packageLimits = {
  /** Sets of packages that are resolved or fetched simultaneously. */
  packageFetches: 2,
};

/** The limits of what a tenant may keep besides its definitions, and import. */
const storeLimits = {
  /** A variable's value, or an entry of `mcps`. */
  variableBytes: 1024 * 1024,
  /** Variables of one tenant: listing them reads all their names. */
  variablesPerTenant: 12_000,
  /** The variable `mcps`: 10,000 entries of 400 bytes. */
  mcpsBytes: 4 * 1024 * 1024,
  /** Entries of `mcps`. */
  mcpsEntries: 12_000,
  /** Values (members, items) of one entry, itself included. */
  entryValues: 25_000,
  /** Past entries of `mcps`, of all tenants together, that are kept in memory for histories. */
  pastEntriesBytes: 32 * 1024 * 1024,
  /** A secret's value. */
  secretBytes: 64 * 1024,
  /** Secrets of one tenant. */
  secretsPerTenant: 1000,
  /** How long content that nothing refers to stays readable, and how long it can be taken back after that. */
  collectGraceMs: 3_600_000,
};

/** The limits of upstreams. */
const upstreamLimits = {
  /** How long a save or a review waits for the lists of all upstreams that it starts; others start later. */
  upstreamSaveMs: 30_000,
  /** How many upstreams a save starts at a time. */
  upstreamSaveStarts: 8,
  /** Concurrent calls that wait for the answer to a question of an upstream. */
  upstreamSuspended: 1_000,
  /** Upstreams that are kept connected for the clients that explore them. */
  exploredServers: 8,
};

/** The limits of what the audit log records and keeps. */
const auditLimits = {
  /** Calls of one tenant that wait to be recorded; further ones are only counted. */
  auditQueuedCalls: 10_000,
  /** How long an ended call waits to be recorded. */
  auditDelayMs: 1_000,
  /** Refused attempts on one tenant that are recorded individually; further ones are only counted. */
  auditRefusalsPerMinute: 20,
  /** Consents of one tenant that were asked for, declined, or refused, likewise; each granted one is recorded. */
  auditConsentsPerMinute: 120,
  /** Links of the audit log that one page of a search examines. */
  auditSearchLinks: 1_000,
};

/** The limits of calls that servers keep with their arguments and results. */
const retainedCallLimits = {
  /** The arguments, and the result, of one retained call, as JSON; longer ones are left out. */
  retainedCallBytes: 32 * 1024,
  /** Calls that one server keeps; the oldest ones go first. */
  retainedCalls: 1_000,
  /** How long an ended call waits to be kept. */
  retainedCallDelayMs: 1_000,
  /** The bytes of a tenant's calls that wait to be kept; further ones are not kept. */
  queuedRetainedCallBytesPerTenant: 8 * 1024 * 1024,
};

/** The limits of the service's own log. */
const logLimits = {
  /** Log lines that stderr does not take; further ones are dropped and counted. */
  logBufferBytes: 1024 * 1024,
};

export const fixedLimits = {
  ...httpLimits,
  ...admissionLimits,
  ...mcpLimits,
  ...hostLimits,
  ...executorLimits,
  ...packageLimits,
  ...storeLimits,
  ...upstreamLimits,
  ...auditLimits,
  ...retainedCallLimits,
  ...logLimits,
};
