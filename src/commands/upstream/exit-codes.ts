import { BerthError, type ErrorCode } from "../../lib/errors.ts";

/** The exit codes of every command that reaches an upstream; documented in docs/upstream-commands.md. */
export const exitCodes = {
  ok: 0,
  usage: 2,
  notStarted: 3,
  protocol: 4,
  tool: 5,
  timeout: 6,
} as const;

const byCode: Partial<Record<ErrorCode, number>> = {
  upstream_not_started: exitCodes.notStarted,
  upstream_ended: exitCodes.protocol,
  upstream_protocol: exitCodes.protocol,
  upstream_refused: exitCodes.protocol,
  upstream_timeout: exitCodes.timeout,
};

export function exitCodeOf(error: BerthError): number {
  return byCode[error.code] ?? exitCodes.usage;
}
