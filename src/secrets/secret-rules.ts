import { fixed } from "../limits/fixed.ts";

/** The secrets of one tenant. */
export const secretBounds = fixed({ secretsPerTenant: 1000 });

/** The value of a secret. */
export const SECRET_BYTES = 64 * 1024;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
/** Variables of scripts and of the programs in them: a secret of such a name could change what a script does. */
const TAKEN = /^(?:BERTH_.*|PATH|HOME|TMPDIR|TZ|LANG|LC_.*|IFS|ENV|BASH_.*|LD_.*|PS4|SHELLOPTS|BASHOPTS|NODE_OPTIONS)$/;
/** Shorter ones occur in any text by chance, and could not be kept out of logs and errors. */
const LENGTH_MIN = 6;

/** The fault of a name, as a sentence without its end; undefined if there is none. */
export function nameFault(name: string): string | undefined {
  if (!NAME.test(name)) {
    return `"${name.slice(0, 200)}" cannot be its name: use up to 128 letters, digits and underscores, as in API_TOKEN`;
  }
  return TAKEN.test(name) ? `"${name}" cannot be its name, since programs already give it a meaning` : undefined;
}

/** As `nameFault`, for a value, which is never part of the sentence. */
export function valueFault(value: string): string | undefined {
  if (value.length < LENGTH_MIN) {
    return `it has fewer than ${LENGTH_MIN} characters, and could not be kept out of logs and errors`;
  }
  if (value.includes("\0")) return "it holds a zero character, which no program can take";
  const bytes = Buffer.byteLength(value);
  return bytes > SECRET_BYTES ? `it has ${bytes} bytes, and may have ${SECRET_BYTES}` : undefined;
}
