import { BerthError, type ErrorCode } from "../../../lib/errors.ts";
import { printableJson } from "../../../lib/printable.ts";
import { UpstreamError } from "../../../upstream/messages/upstream-error.ts";

/** Wrong usage of a command, or a tool's own failure: errors without a `BerthError`. */
export class CommandFailure extends Error {
  readonly code: string;
  readonly exitCode: number;
  readonly more: Record<string, unknown>;

  constructor(code: string, message: string, exitCode: number, more: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.exitCode = exitCode;
    this.more = more;
  }
}

export function usageFailure(message: string, more?: Record<string, unknown>): CommandFailure {
  return new CommandFailure("usage", message, exitCodes.usage, more);
}

export interface PrintedFailure {
  readonly exitCode: number;
  readonly fields: { readonly code: string; readonly message: string } & Record<string, unknown>;
}

/** Any other error is a bug in Berth, and is rethrown. */
export function failureFields(error: unknown): PrintedFailure {
  if (error instanceof CommandFailure) {
    const { code, message, exitCode, more } = error;
    return { exitCode, fields: { ...more, code, message } };
  }
  if (!(error instanceof BerthError)) throw error;
  const { code, message, data } = error;
  const stderr = error instanceof UpstreamError && error.stderr !== "" ? { stderr: error.stderr } : {};
  return { exitCode: exitCodeOf(error), fields: { ...data, code, message, ...stderr } };
}

/** Prints one JSON object on a line of its own. */
export function printFailure({ fields }: PrintedFailure): void {
  const { code, message, ...more } = fields;
  process.stderr.write(`${printableJson(JSON.stringify({ error: { code, message, ...more } }))}\n`);
}

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

function exitCodeOf(error: BerthError): number {
  return byCode[error.code] ?? exitCodes.usage;
}
