/** The limits of authentication: access tokens, and the servers that issue them. */
export const accessLimits = {
  /** Access tokens that are remembered, which saves a look-up in the store or a signature check. */
  knownTokens: 10_000,
  /** Berth's own tokens of one tenant, including ended ones until others need their room. */
  tokensPerTenant: 10_000,
  /** How long a browser stays signed in. */
  signInMs: 12 * 3_600_000,
  /** How long the signature of an access token counts as verified. */
  verifiedTokenMs: 60_000,
  /** The pause between two searches for a missing key of an authorization server. */
  jwksCooldownMs: 30_000,
  /** The time after which the keys of an authorization server are read again. */
  jwksMaxAgeMs: 600_000,
  /** The time for one request to an authorization server, with its answer. */
  issuerMs: 5_000,
  issuerBytes: 256 * 1024,
  /** Requests with access tokens that wait at the same time for the keys of one authorization server. */
  issuerWaiting: 256,
  /** Authorization servers whose keys are kept, one per tenant. */
  issuers: 256,
};
