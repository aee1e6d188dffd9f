/** The limits of what the audit log records and keeps. */
export const auditLimits = {
  /** How long the audit log keeps anything, and how long the contents of its calls; 0 for ever. */
  auditDays: 730,
  auditCallDays: 90,
  /** The bytes of each tenant in the audit log: of calls, and of everything else; 0 for no limit. */
  auditCallBytesPerTenant: 256 * 1024 * 1024,
  auditBytesPerTenant: 64 * 1024 * 1024,
  /** Calls of one tenant that wait to be recorded; further ones are only counted. */
  auditQueuedCalls: 10_000,
  /** How long an ended call waits to be recorded. */
  auditDelayMs: 1_000,
  /** Refused attempts on one tenant that are recorded individually; further ones are only counted. */
  auditRefusalsPerMinute: 20,
  /** Links of the audit log that one page of a search examines. */
  auditSearchLinks: 1_000,
};
