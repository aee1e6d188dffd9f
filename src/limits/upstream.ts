/** What servers of others may take. */
export const upstreamLimits = {
  /** For a server of others to start and say hello; its first installation included. */
  upstreamStartMs: 300_000,
  /** How long a save or a review waits for what upstreams offer that it starts, all together; further ones start later. */
  upstreamSaveMs: 30_000,
  /** How many a save starts side by side. */
  upstreamSaveStarts: 8,
  /** Until a server that says nothing to a modern hello is greeted the legacy way, too. */
  upstreamProbeMs: 10_000,
  /** One call, read or list of a server of others. */
  upstreamCallMs: 60_000,
  /**
   * How long a server of others that is asked something may say nothing at all. If it does and a call of it is given up,
   * it is pinged; if it says nothing for as long again, its connection is ended, and its process with it.
   */
  upstreamPingMs: 15_000,
  /** Between the ways to end a child: end of input, SIGTERM, SIGKILL. */
  upstreamEndMs: 2_000,
  /** The longest message of a server of others. */
  upstreamMessageBytes: 16 * 1024 * 1024,
  /** What has come of messages of servers of others that are not whole yet, of all tenants and of each. */
  unfinishedUpstreamBytes: 256 * 1024 * 1024,
  unfinishedUpstreamBytesPerTenant: 64 * 1024 * 1024,
  /** What programs of others have not taken yet of what is sent to them, of all tenants and of each. */
  programBacklogBytes: 384 * 1024 * 1024,
  programBacklogBytesPerTenant: 128 * 1024 * 1024,
  /** The longest of its messages that is no result: a question, a log line, progress, an error. */
  upstreamNoticeBytes: 4 * 1024 * 1024,
  /** One entry of a list, such as a tool with its schemas; a larger one is left out. */
  upstreamEntryBytes: 128 * 1024,
  /** All entries of one list; those that come when it is full are left out. */
  upstreamListBytes: 1024 * 1024,
  /** What may come on its stdout between two messages and be none. */
  upstreamGarbageBytes: 1024 * 1024,
  /** Above which a server of others waits before more is read of it. */
  upstreamNotificationsPerSecond: 5000,
  /** Requests of its own under way at once, its pings included; one that has more is ended, or left. */
  upstreamQuestions: 256,
  /** How often the event streams of a server at an address are opened in a second, all of a connection's together; others wait. */
  upstreamResumesPerSecond: 20,
  /** The words, and the data, of an error that is passed on to clients: longer words are cut, longer data is left out. */
  upstreamErrorBytes: 64 * 1024,
  /** The end of stderr that is kept for errors. */
  upstreamStderrBytes: 8 * 1024,
  upstreamListPages: 100,
  upstreamListItems: 10_000,
  /** Rounds of questions in one call. */
  upstreamRounds: 10,
  /** After which a hosted server of others that nobody uses is ended; it is started again on demand. */
  upstreamIdleMs: 300_000,
  /** Requests at once to one of them. */
  upstreamRequests: 256,
  /** Between a failed start and the next: the first wait, and the longest. */
  upstreamBackoffMs: 500,
  upstreamBackoffMaxMs: 60_000,
  /** How long a question waits until it is clear which call it belongs to. */
  upstreamQuestionMs: 2_000,
  /** Calls at once that wait for the answer to a question of a server of others. */
  upstreamSuspended: 1_000,
  /** Servers that are kept connected for whoever explores them. */
  exploredServers: 8,
};
