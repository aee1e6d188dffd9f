import nacl from "tweetnacl";

/** Signs a message, and encrypts one. */
export function sealed(): { isVerified: boolean; opened: string } {
  const message = new TextEncoder().encode("message");
  const keys = nacl.sign.keyPair.fromSeed(new Uint8Array(32));
  const isVerified = nacl.sign.detached.verify(message, nacl.sign.detached(message, keys.secretKey), keys.publicKey);
  const [key, nonce] = [nacl.randomBytes(32), nacl.randomBytes(24)];
  const opened = nacl.secretbox.open(nacl.secretbox(message, nonce, key), nonce, key);
  return { isVerified, opened: new TextDecoder().decode(opened ?? undefined) };
}
