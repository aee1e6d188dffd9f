/** What the audit log takes up and keeps. */
export const auditLimits = {
  /** How long the audit log keeps anything, and how long the contents of its calls; 0 is for ever. */
  auditDays: 730,
  auditCallDays: 90,
  /** Of each tenant, kept in the audit log: of calls, and of all else; 0 is without a limit. */
  auditCallBytesPerTenant: 256 * 1024 * 1024,
  auditBytesPerTenant: 64 * 1024 * 1024,
  /** Calls of one tenant that wait to be recorded; those beyond are only counted. */
  auditQueuedCalls: 10_000,
  /** How long a call that has ended waits to be recorded. */
  auditDelayMs: 1_000,
  /** Refused attempts on one tenant that are recorded by themselves; those beyond are only counted. */
  auditRefusalsPerMinute: 20,
  /** Links of the audit log that one page of a search looks through. */
  auditSearchLinks: 1_000,
};
