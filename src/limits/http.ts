/** What connections, requests and streams over HTTP may take, and how the service ends. */
export const httpLimits = {
  bodyBytes: 4 * 1024 * 1024,
  /** The body of a request that says a few names: a token's wish, an approval. */
  shortBodyBytes: 64 * 1024,
  /** The body of a sign-in, which anybody may send: a token, and the page to go on to. */
  signInBytes: 8 * 1024,
  /** What has come of bodies that are not whole yet. */
  unfinishedBodyBytes: 256 * 1024 * 1024,
  unfinishedBodyBytesPerTenant: 64 * 1024 * 1024,
  /** The same of all sign-ins together, which count to no tenant. */
  unfinishedSignInBytes: 4 * 1024 * 1024,
  /** Bodies of calls that are under way, of all tenants and of each: those that wait for their turn keep what they brought. */
  heldBodyBytes: 384 * 1024 * 1024,
  heldBodyBytesPerTenant: 128 * 1024 * 1024,
  /** A longer body, or result of a function, is read, checked and written by the process for checks. */
  inlineBodyBytes: 64 * 1024,
  /** Values of one message, such as members and items, besides the arguments or the result of its call, where it is longer. */
  messageValues: 100_000,
  /** Items on one page of a list of servers, variables, definitions, entries or secrets, and the most that may be asked for. */
  pageItems: 100,
  pageItemsMax: 1_000,
  headersMs: 10_000,
  requestMs: 30_000,
  headerBytes: 16 * 1024,
  connections: 20_000,
  /** Requests of one connection that wait for the answers before theirs; above, it is cut. */
  pipelinedRequests: 32,
  /** Between two requests on one connection. */
  idleConnectionMs: 5_000,
  /** How long a client may take none of what is sent to it. */
  stalledMs: 60_000,
  /** Bytes of one stream that its client has not taken yet; above, its connection ends. */
  unreadStreamBytes: 16 * 1024 * 1024,
  /** What clients have not taken yet of long answers and streams; above, what has waited longest is cut. */
  unreadBytes: 512 * 1024 * 1024,
  unreadBytesPerTenant: 256 * 1024 * 1024,
  /** The same of all connections of HTTP+SSE of a tenant: above, nothing is carried out for them. */
  unreadSseBytesPerTenant: 64 * 1024 * 1024,
  /** Answers under way that are streams or may become some. */
  openStreams: 10_000,
  /** Between two signs of life on a quiet stream. */
  streamCommentMs: 15_000,
  /** Between a signal to end and the end of new connections: `/readyz` says so meanwhile. */
  drainMs: 0,
  shutdownMs: 10_000,
};
