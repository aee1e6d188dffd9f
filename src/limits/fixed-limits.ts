/**
 * The limits that no operator needs to change. They are enforced like the others; tests lower them.
 */

/** The limits of connections, requests and streams over HTTP, and the times of a shutdown. */
const httpLimits = {
  /** The body of a request with a few names: a request for a token, an approval. */
  shortBodyBytes: 64 * 1024,
  /** The body of a sign-in, which anybody may send: a token, and the page to go to next. */
  signInBytes: 8 * 1024,
  /** Likewise for all sign-ins together, which count to no tenant. */
  unfinishedSignInBytes: 4 * 1024 * 1024,
  /** The default and maximum number of items on one page of servers, variables, definitions, entries or secrets. */
  pageItems: 100,
  pageItemsMax: 1_000,
  /** How long a search of the page `/mcp` may load servers; it says how many were left out, and goes on from there. */
  serverSearchMs: 1_000,
  /** How long the headers of a request may take to arrive. */
  headersMs: 10_000,
  /** How long a whole request may take to arrive. */
  requestMs: 30_000,
  /** The headers of one request. */
  headerBytes: 16 * 1024,
  /** Requests of one connection that wait for earlier answers; above this, the connection is cut. */
  pipelinedRequests: 32,
  /** How long a client may accept nothing of what is sent to it. */
  stalledMs: 60_000,
  /** How long requests, streams and tasks under way may take to end where another worker replaces theirs. */
  replaceMs: 60_000,
};

/** The limits of what tenants, tokens and anonymous callers may take of shared resources. */
const admissionLimits = {
  /** Addresses whose anonymous requests are counted separately; all others count together. */
  anonymousAddresses: 10_000,
  /** The time after which an unused tenant is unloaded until the next request for it. */
  tenantIdleMs: 3_600_000,
};

/** The limits of authentication: access tokens, and the servers that issue them. */
const accessLimits = {
  /** Access tokens that are remembered, which saves a look-up in the store or a signature check. */
  knownTokens: 10_000,
  /**
   * How long a token of Berth's own counts as valid before it is looked up again. A revocation is in force at once, also
   * by another process; this is for the case that its news is lost.
   */
  knownTokenMs: 60_000,
  /** Berth's own tokens of one tenant, including ended ones until others need their room. */
  tokensPerTenant: 10_000,
  /** How long the signature of an access token counts as verified. */
  verifiedTokenMs: 60_000,
  /** The pause between two searches for a missing key of an authorization server. */
  jwksCooldownMs: 30_000,
  /** The time after which the keys of an authorization server are read again. */
  jwksMaxAgeMs: 600_000,
  /** The time for one request to an authorization server, with its answer. */
  issuerMs: 5_000,
  /** The answer to such a request. */
  issuerBytes: 256 * 1024,
  /** Requests with access tokens that wait at the same time for the keys of one authorization server. */
  issuerWaiting: 256,
  /** Authorization servers whose keys are kept, one per tenant. */
  issuers: 256,
};

/** The limits of the protocol's state: sessions, streams, questions, tasks. */
const mcpLimits = {
  /** How long a modern client may take to return with the answers to questions. */
  requestStateMs: 1_800_000,
  /** Messages of one batch. */
  batchMessages: 100,
  /** The items of one page of a list. A shorter list comes in one page: many clients never ask for a second. */
  listPageBytes: 2 * 1024 * 1024,
  /** Likewise as a number of items; 0 for no limit. */
  listPageItems: 0,
  /** The questions of one call to its client at a time; sampling includes texts and pictures. */
  questionBytes: 1024 * 1024,
  /**
   * All answers to the questions of one call, plus 32 bytes for each value in them: each round reads and writes them.
   */
  answerBytes: 1024 * 1024,
  /** Bytes of the answers to one batch; further answers are refused, except the first. */
  batchBytes: 4 * 1024 * 1024,
  /** The stored data of a tenant's sessions until they end: levels and subscriptions, and 1 KiB for each. */
  keptSessionBytesPerTenant: 256 * 1024 * 1024,
  /** Open streams of one session. */
  streamsPerSession: 32,
  /** Ended streams of a session that are kept for a client that returns; above this, the oldest goes. */
  restingStreamsPerSession: 1_000,
  /** Resources to which one session is subscribed. */
  subscriptionsPerSession: 256,
  /** Open connections of HTTP+SSE, the transport of 2024-11-05, in one process. */
  sseConnections: 1000,
  sseConnectionsPerTenant: 750,
  /** Events kept on each stream of a session for a client that lost its connection. */
  streamEvents: 1000,
  streamBytes: 256 * 1024,
  /** Events kept on all streams together, and how long after a stream ended or its client left. */
  replayBytes: 64 * 1024 * 1024,
  /** Likewise for each tenant. When the total is too large, the tenant that keeps most loses some. */
  replayBytesPerTenant: 48 * 1024 * 1024,
  replayMs: 300_000,
  /** The time after which a stream counts as broken if its process is silent. */
  streamLeaseMs: 3_000,
  /** The delay that a client is told to wait before it resumes a stream. */
  streamRetryMs: 1000,
  /** The time after which a silent call gets a stream, so that it outlives its connection. */
  silentCallMs: 100,
  /** Log lines of one call that wait for its client; further ones are dropped and counted. */
  waitingLogBytes: 256 * 1024,
  /** The time after which a listening client is pinged, and how long it may take to reply. */
  pingMs: 120_000,
  /** Streams in one process that follow one task. */
  listenersPerTask: 32,
  /**
   * Tasks of one tenant that are kept, including running ones, and the bytes of their arguments, answers and results.
   */
  keptTasksPerTenant: 100_000,
  keptTaskBytesPerTenant: 1024 * 1024 * 1024,
};

const hostLimits = { retryMs: 200 };

export const fixedLimits = {
  ...httpLimits,
  ...admissionLimits,
  ...accessLimits,
  ...mcpLimits,
  ...hostLimits,
};
