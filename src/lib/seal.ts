import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from "node:crypto";
import { BerthError } from "./errors.ts";
import { isObject } from "./json.ts";

/**
 * Seals state that a client carries for us: the client can neither read nor change it, use it after it expires, nor use
 * it in another place. It owns only the cryptography (AES-256-GCM with a fresh nonce for each text) and knows nothing
 * of the content.
 */
export interface Sealer {
  /** `binding` is everything that must be the same when the text is opened; `value` is plain JSON. */
  seal(binding: readonly string[], value: unknown, ttlMs: number): string;
  /** Throws `invalid_params` for a text that was changed, was sealed with another key or binding, or has expired. */
  unseal(binding: readonly string[], text: string): unknown;
}

/** Shorter keys are refused. */
const KEY_BYTES_MIN = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** The format version; changes with the format. */
const FORMAT = "1.";

/**
 * The first key seals, and each of them opens. They are shared by all processes of a service and outlive them. Throws
 * `TypeError` for a short key.
 */
export function createSealer(keys: readonly Uint8Array[], now: () => number = Date.now): Sealer {
  const secrets = keys.map((key) => {
    if (key.byteLength < KEY_BYTES_MIN) throw new TypeError(`a seal key has at least ${KEY_BYTES_MIN} bytes`);
    return createSecretKey(Buffer.from(hkdfSync("sha256", key, "", "berth: state carried by clients", 32)));
  });
  const context = (binding: readonly string[]): Buffer => Buffer.from(FORMAT + JSON.stringify(binding));

  return {
    seal(binding, value, ttlMs) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", secrets[0]!, nonce).setAAD(context(binding));
      const text = JSON.stringify({ expires: now() + ttlMs, value });
      const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
      return FORMAT + sealed.toString("base64url");
    },

    unseal(binding, text) {
      const opened = JSON.parse(open(text, context(binding))) as unknown;
      if (!isObject(opened) || typeof opened["expires"] !== "number") throw invalidState();
      if (opened["expires"] <= now()) {
        throw new BerthError("invalid_params", '"requestState" has expired; make the request again without it');
      }
      return opened["value"];
    },
  };

  function open(text: string, additional: Buffer): string {
    const encoded = text.slice(FORMAT.length);
    const sealed = Buffer.from(encoded, "base64url");
    // Only one encoding per state: decoding alone would ignore characters outside base64url.
    const canonical = text.startsWith(FORMAT) && sealed.toString("base64url") === encoded;
    if (!canonical || sealed.length < NONCE_BYTES + TAG_BYTES) throw invalidState();
    let cause: unknown;
    for (const secret of secrets) {
      try {
        const decipher = createDecipheriv("aes-256-gcm", secret, sealed.subarray(0, NONCE_BYTES))
          .setAAD(additional)
          .setAuthTag(sealed.subarray(-TAG_BYTES));
        const plain = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
        return Buffer.concat([plain, decipher.final()]).toString();
      } catch (error) {
        cause = error;
      }
    }
    throw invalidState(cause);
  }
}

function invalidState(cause?: unknown): BerthError {
  const detail = '"requestState" did not come from this server for this request; make the request again without it';
  return new BerthError("invalid_params", detail, { cause });
}
