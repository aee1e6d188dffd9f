import { destination, pino, symbols, type DestinationStream, type Logger } from "pino";
import { fixed } from "../limits/fixed.ts";
import { printableJson } from "./printable.ts";
import { within } from "./within.ts";

export type Log = Logger;

/** Headers and fields whose values are credentials. */
const SECRET_FIELDS = ["authorization", "cookie", "set-cookie", "proxy-authorization", "token", "secret", "password"];
const PATHS = SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`, `*.*["${field}"]`]);
const HIDDEN = "[hidden]";
/** Credentials recognizable anywhere, such as in the message of an error. */
const CREDENTIALS = /\b(Bearer|Basic)\s+[\w.~+/-]+=*|\bberth_[0-9A-Za-z]{20,}/gi;

/** The pause before the next attempt to write to a blocked stderr. */
const RETRY_MS = 100;
/** How long writing the rest may take when the process ends. */
const LAST_LINES_MS = 1_000;

/** Bytes of log lines that wait for stderr; further lines are dropped and counted. */
const bounds = fixed({ logBufferBytes: 1024 * 1024 });

/**
 * JSON lines on stderr, so that stdout stays free for protocols and data. No line contains a credential: neither a
 * string that looks like one, nor any of `secrets`. While stderr is blocked, lines wait in up to `logBufferBytes`;
 * further ones are dropped and counted. `show` formats a line differently.
 */
export function createLog(
  level: string,
  secrets: readonly (string | undefined)[] = [],
  show?: (line: string) => string,
): Log {
  const stream = new LogStream();
  const log = pino(logOptions(level, secrets, show), stream);
  stream.onCaughtUp = (dropped) => log.warn({ dropped }, "log lines were dropped because stderr was blocked");
  return log;
}

/** The number of lines dropped so far. */
export function droppedLines(log: Log): number {
  return streamOf(log)?.dropped ?? 0;
}

/** Resolves when everything is written, or the time is over. */
export async function writeLastLines(log: Log): Promise<void> {
  await streamOf(log)?.caughtUp(LAST_LINES_MS);
}

function streamOf(log: Log): LogStream | undefined {
  const { [symbols.streamSym]: stream } = log as unknown as Record<symbol, unknown>;
  return stream instanceof LogStream ? stream : undefined;
}

/** Writes to stderr immediately and never blocks: neither for a reader nor for disk space. */
class LogStream implements DestinationStream {
  dropped = 0;
  onCaughtUp: (dropped: number) => void = () => {};
  readonly #stream;
  #reportedDrops = 0;
  /** Runs while lines wait. */
  #retryTimer: NodeJS.Timeout | undefined;

  constructor() {
    // Node opens it on first access; from then on a pipe does not block.
    void process.stderr;
    this.#stream = destination({ fd: 2, sync: true, maxLength: bounds.logBufferBytes, retryEAGAIN: () => false });
    // Pino's own listener permanently stops logging when the reader of a named pipe is replaced.
    this.#stream.removeAllListeners("error").on("error", () => this.#retry());
    this.#stream.on("drop", () => (this.dropped += 1));
  }

  write(line: string): void {
    this.#stream.write(line);
  }

  async caughtUp(ms: number): Promise<void> {
    if (!this.#retryTimer) return;
    await within(ms, new Promise((resolve) => this.#stream.once("drain", resolve)));
  }

  /** Retries; the line that could not be written stays first. */
  #retry(): void {
    if (this.#retryTimer) return;
    this.#retryTimer = setInterval(() => this.#stream.write(""), RETRY_MS).unref();
    this.#stream.once("drain", () => {
      clearInterval(this.#retryTimer);
      this.#retryTimer = undefined;
      const unreported = this.dropped - this.#reportedDrops;
      this.#reportedDrops = this.dropped;
      if (unreported > 0) this.onCaughtUp(unreported);
    });
  }
}

export function logOptions(
  level: string,
  secrets: readonly (string | undefined)[],
  show: (line: string) => string = (line) => line,
) {
  // As they are written inside JSON.
  const escapedSecrets = secrets.flatMap((secret) => (secret ? [JSON.stringify(secret).slice(1, -1)] : []));
  const withoutSecrets = (line: string): string => {
    let clean = line.replace(CREDENTIALS, (match) =>
      match.startsWith("berth_") ? HIDDEN : `${match.split(/\s/)[0]} ${HIDDEN}`,
    );
    for (const secret of escapedSecrets) clean = clean.replaceAll(secret, HIDDEN);
    // Also safe for people in a terminal; the JSON value stays the same.
    return show(printableJson(clean));
  };
  return {
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: PATHS, censor: HIDDEN },
    hooks: { streamWrite: withoutSecrets },
  };
}
