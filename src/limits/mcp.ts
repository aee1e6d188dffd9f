/** The limits of the protocol's state: sessions, streams, questions, tasks. */
export const mcpLimits = {
  /** How long a modern client may take to return with the answers to questions. */
  requestStateMs: 1_800_000,
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
  /** Legacy sessions that the process remembers. */
  sessions: 10_000,
  sessionMs: 7 * 24 * 3_600_000,
  /** The stored data of a tenant's sessions until they end: levels and subscriptions, and 1 KiB for each. */
  keptSessionBytesPerTenant: 256 * 1024 * 1024,
  streamsPerSession: 32,
  /** Ended streams of a session that are kept for a client that returns; above this, the oldest goes. */
  restingStreamsPerSession: 1_000,
  subscriptionsPerSession: 256,
  /** Open connections of HTTP+SSE, the transport of 2024-11-05. */
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
  /** How long one connection of a session's stream lasts before the client is asked to reconnect; 0 for ever. */
  connectionMs: 300_000,
  /** The time after which a silent call gets a stream, so that it outlives its connection. */
  silentCallMs: 100,
  /** Log lines of one call that wait for its client; further ones are dropped and counted. */
  waitingLogBytes: 256 * 1024,
  /** How long a client, or the person using it, may take to answer a question. */
  answerMs: 600_000,
  /** The time after which a listening client is pinged, and how long it may take to reply. */
  pingMs: 120_000,
  /** How long a task may run, not counting its rounds of questions. */
  taskMs: 3_600_000,
  /** How long a task is kept, from its creation. */
  taskTtlMs: 86_400_000,
  /** The time after which a task counts as lost if its process is silent. */
  taskLeaseMs: 15_000,
  /** Tasks that run at once in one process. */
  runningTasks: 128,
  runningTasksPerTenant: 96,
  /** The arguments and answers given to a tenant's running tasks, counted likewise. */
  runningTaskBytesPerTenant: 64 * 1024 * 1024,
  /** Streams that follow one task. */
  listenersPerTask: 32,
  /**
   * Tasks of one tenant that are kept, including running ones, and the bytes of their arguments, answers and results.
   */
  keptTasksPerTenant: 100_000,
  keptTaskBytesPerTenant: 1024 * 1024 * 1024,
};
