/** The limits of connections, requests and streams over HTTP, and the times of a shutdown. */
export const httpLimits = {
  bodyBytes: 4 * 1024 * 1024,
  /** The body of a request with a few names: a request for a token, an approval. */
  shortBodyBytes: 64 * 1024,
  /** The body of a sign-in, which anybody may send: a token, and the page to go to next. */
  signInBytes: 8 * 1024,
  /** The received parts of incomplete bodies. */
  unfinishedBodyBytes: 256 * 1024 * 1024,
  unfinishedBodyBytesPerTenant: 64 * 1024 * 1024,
  /** Likewise for all sign-ins together, which count to no tenant. */
  unfinishedSignInBytes: 4 * 1024 * 1024,
  /** Bodies of calls under way, of all tenants and of each: calls that wait for their turn keep their bodies. */
  heldBodyBytes: 384 * 1024 * 1024,
  heldBodyBytesPerTenant: 128 * 1024 * 1024,
  /** A longer body or function result is read, checked and written by the checking process. */
  inlineBodyBytes: 64 * 1024,
  /** Values of one longer message, such as members and items, besides the arguments or the result of its call. */
  messageValues: 100_000,
  /** The default and maximum number of items on one page of servers, variables, definitions, entries or secrets. */
  pageItems: 100,
  pageItemsMax: 1_000,
  headersMs: 10_000,
  requestMs: 30_000,
  headerBytes: 16 * 1024,
  connections: 20_000,
  /** Requests of one connection that wait for earlier answers; above this, the connection is cut. */
  pipelinedRequests: 32,
  /** The time between two requests on one connection. */
  idleConnectionMs: 5_000,
  /** How long a client may accept nothing of what is sent to it. */
  stalledMs: 60_000,
  /** Bytes of one stream that its client has not taken yet; above this, its connection ends. */
  unreadStreamBytes: 16 * 1024 * 1024,
  /** Bytes of long answers and streams that clients have not taken yet; above this, the longest waiting one is cut. */
  unreadBytes: 512 * 1024 * 1024,
  unreadBytesPerTenant: 256 * 1024 * 1024,
  /** Likewise for all connections of HTTP+SSE of a tenant: above this, none of their requests is carried out. */
  unreadSseBytesPerTenant: 64 * 1024 * 1024,
  /** Answers under way that are streams or may become streams. */
  openStreams: 10_000,
  /** The interval of keep-alive comments on a quiet stream. */
  streamCommentMs: 15_000,
  /** The time between a signal to end and the end of new connections, during which `/readyz` reports it. */
  drainMs: 0,
  shutdownMs: 10_000,
};
