/** The severities of messages of guests, upstreams and clients (RFC 5424), from least to most severe. */
export const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

const levels: ReadonlySet<unknown> = new Set(LOG_LEVELS);

export function isLogLevel(level: unknown): level is LogLevel {
  return levels.has(level);
}
