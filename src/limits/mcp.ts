/** What the protocol keeps of clients and for them: sessions, streams, questions, tasks. */
export const mcpLimits = {
  /** How long a modern client may take to come again with the answers to questions. */
  requestStateMs: 1_800_000,
  batchMessages: 100,
  /** The items of one page of a list. A list that has no more comes in one page: many clients never ask for a second. */
  listPageBytes: 2 * 1024 * 1024,
  /** The same in number; 0 is as many as there is room for. */
  listPageItems: 0,
  /** What one call asks its client at once; sampling brings texts and pictures. */
  questionBytes: 1024 * 1024,
  /** All answers to the questions of one call, 32 bytes for each value among them: each round reads and writes them. */
  answerBytes: 1024 * 1024,
  /** Bytes of the answers to one batch; further ones are refused, but for the first. */
  batchBytes: 4 * 1024 * 1024,
  /** Legacy sessions that the process remembers. */
  sessions: 10_000,
  sessionMs: 7 * 24 * 3_600_000,
  /** What is stored of a tenant's sessions until they end: levels and subscriptions, and 1 KiB for each. */
  keptSessionBytesPerTenant: 256 * 1024 * 1024,
  streamsPerSession: 32,
  /** Streams of a session that have ended and are kept for a client that comes back; beyond, the oldest goes. */
  restingStreamsPerSession: 1_000,
  subscriptionsPerSession: 256,
  /** Open connections of HTTP+SSE, the transport of 2024-11-05. */
  sseConnections: 1000,
  sseConnectionsPerTenant: 750,
  /** Kept on each stream of a session for a client that lost its connection. */
  streamEvents: 1000,
  streamBytes: 256 * 1024,
  /** Kept on all streams together, and for how long after a stream ended or its client left. */
  replayBytes: 64 * 1024 * 1024,
  /** The same of each tenant. Where all is too much, whoever keeps most loses some. */
  replayBytesPerTenant: 48 * 1024 * 1024,
  replayMs: 300_000,
  /** After which a stream whose process says nothing any more counts as broken off. */
  streamLeaseMs: 3_000,
  /** What a client is told to wait before it takes up a stream again. */
  streamRetryMs: 1000,
  /** How long one connection of a session's stream lasts before the client is sent to come again; 0 is for ever. */
  connectionMs: 300_000,
  /** Until a call that has said nothing gets a stream, so that it outlives its connection. */
  silentCallMs: 100,
  /** Log lines of one call that wait for its client to take them; further ones are dropped and counted. */
  waitingLogBytes: 256 * 1024,
  /** How long a client, or the person before it, may take for the answer to a question. */
  answerMs: 600_000,
  /** After which a client that listens is asked whether it is there, and how long it may take to say so. */
  pingMs: 120_000,
  /** How long a task may run, all its rounds of questions together not counted. */
  taskMs: 3_600_000,
  /** How long a task is kept, from its creation. */
  taskTtlMs: 86_400_000,
  /** After which a task whose process says nothing any more counts as lost. */
  taskLeaseMs: 15_000,
  /** Tasks that run at once in one process. */
  runningTasks: 128,
  runningTasksPerTenant: 96,
  /** The arguments and answers that running tasks of a tenant were given, counted so. */
  runningTaskBytesPerTenant: 64 * 1024 * 1024,
  /** Streams that are told what becomes of one task. */
  listenersPerTask: 32,
  /** Tasks of one tenant that are kept, running ones among them, and the bytes of their arguments, answers and results. */
  keptTasksPerTenant: 100_000,
  keptTaskBytesPerTenant: 1024 * 1024 * 1024,
};
