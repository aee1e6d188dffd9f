import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { SecretKey } from "../../secrets/key-ring.ts";

// A sealed value can neither be read nor moved to another place without the key.
const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Nonce, text, tag. Sealing the same text twice gives different bytes. */
export function seal({ bytes }: SecretKey, tenant: string, name: string, value: string): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, bytes, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(placeOf(tenant, name));
  return Buffer.concat([nonce, cipher.update(value, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

/** Undefined if this key did not seal it for this tenant and name, or if it was changed since. */
export function unseal({ bytes }: SecretKey, tenant: string, name: string, sealed: Uint8Array): string | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const textEnd = sealed.length - TAG_BYTES;
  const decipher = createDecipheriv(ALGORITHM, bytes, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(placeOf(tenant, name));
  decipher.setAuthTag(sealed.subarray(textEnd));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, textEnd)), decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

/** Binds a sealed value to its tenant and name. No two pairs give the same text. */
function placeOf(tenant: string, name: string): Buffer {
  return Buffer.from(JSON.stringify(["berth secret", tenant, name]));
}
