/** The limits of upstreams. */
export const upstreamLimits = {
  /** The time for an upstream to start and say hello, including its first installation. */
  upstreamStartMs: 300_000,
  /** How long a save or a review waits for the lists of all upstreams that it starts; others start later. */
  upstreamSaveMs: 30_000,
  /** How many upstreams a save starts at a time. */
  upstreamSaveStarts: 8,
  /** The time after which an upstream that does not answer a modern hello is also greeted the legacy way. */
  upstreamProbeMs: 10_000,
  /** One call, read or list of an upstream. */
  upstreamCallMs: 60_000,
  /**
   * How long an upstream that owes an answer may be silent. If it is and one of its calls is given up, it is pinged; if
   * it is silent for as long again, its connection is ended, and its process with it.
   */
  upstreamPingMs: 15_000,
  /** The time between the ways to end a child: end of input, SIGTERM, SIGKILL. */
  upstreamEndMs: 2_000,
  /** The longest message of an upstream. */
  upstreamMessageBytes: 16 * 1024 * 1024,
  /** The received parts of incomplete messages from upstreams, of all tenants and of each. */
  unfinishedUpstreamBytes: 256 * 1024 * 1024,
  unfinishedUpstreamBytesPerTenant: 64 * 1024 * 1024,
  /** Messages that upstream programs have not taken yet, of all tenants and of each. */
  programBacklogBytes: 384 * 1024 * 1024,
  programBacklogBytesPerTenant: 128 * 1024 * 1024,
  /** The longest message that is not a result: a question, a log line, progress, an error. */
  upstreamNoticeBytes: 4 * 1024 * 1024,
  /** One entry of a list, such as a tool with its schemas; a larger one is left out. */
  upstreamEntryBytes: 128 * 1024,
  /** All entries of one list; entries beyond that are left out. */
  upstreamListBytes: 1024 * 1024,
  /** Output on its stdout that belongs to no message, between two messages. */
  upstreamGarbageBytes: 1024 * 1024,
  /** Above this rate, reading from an upstream pauses. */
  upstreamNotificationsPerSecond: 5000,
  /** Concurrent requests from an upstream, including pings; an upstream with more is ended or disconnected. */
  upstreamQuestions: 256,
  /** How often event streams of a remote upstream are opened in a second, per connection; others wait. */
  upstreamResumesPerSecond: 20,
  /** The text, and the data, of an error that is passed on to clients: longer text is cut, longer data is left out. */
  upstreamErrorBytes: 64 * 1024,
  /** The end of stderr that is kept for errors. */
  upstreamStderrBytes: 8 * 1024,
  upstreamListPages: 100,
  upstreamListItems: 10_000,
  /** Rounds of questions in one call. */
  upstreamRounds: 10,
  /** The time after which an unused hosted upstream is ended; it is started again on demand. */
  upstreamIdleMs: 300_000,
  /** Concurrent requests to one upstream. */
  upstreamRequests: 256,
  /** The first and the longest wait between a failed start and the next. */
  upstreamBackoffMs: 500,
  upstreamBackoffMaxMs: 60_000,
  /** How long a question waits until it is clear which call it belongs to. */
  upstreamQuestionMs: 2_000,
  /** Concurrent calls that wait for the answer to a question of an upstream. */
  upstreamSuspended: 1_000,
  /** Upstreams that are kept connected for the clients that explore them. */
  exploredServers: 8,
};
