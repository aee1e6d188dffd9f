import { destination, pino, type Logger } from "pino";

export type Log = Logger;

/** Of headers and fields whose values let somebody in. */
const SECRET_FIELDS = ["authorization", "cookie", "set-cookie", "proxy-authorization", "token", "secret", "password"];
const PATHS = SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`, `*.*["${field}"]`]);
const HIDDEN = "[hidden]";
/** What lets somebody in wherever it stands, as in the message of an error. */
const CREDENTIALS = /\b(Bearer|Basic)\s+[\w.~+/-]+=*|\bberth_[0-9A-Za-z]{20,}/gi;

/**
 * JSON lines on stderr, so that stdout stays free for protocols and data. No line holds a credential: neither one that
 * looks like it, nor any of `secrets`.
 */
export function createLog(level: string, secrets: readonly (string | undefined)[] = []): Log {
  const stream = destination({ fd: 2, sync: true });
  return pino(logOptions(level, secrets), stream);
}

export function logOptions(level: string, secrets: readonly (string | undefined)[]) {
  // As they stand inside of JSON.
  const known = secrets.flatMap((secret) => (secret ? [JSON.stringify(secret).slice(1, -1)] : []));
  const withoutSecrets = (line: string): string => {
    let clean = line.replace(CREDENTIALS, (found) =>
      found.startsWith("berth_") ? HIDDEN : `${found.split(/\s/)[0]} ${HIDDEN}`,
    );
    for (const secret of known) clean = clean.replaceAll(secret, HIDDEN);
    return clean;
  };
  return {
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: PATHS, censor: HIDDEN },
    hooks: { streamWrite: withoutSecrets },
  };
}
