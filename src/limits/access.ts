/** What it takes to know who somebody is: access tokens, and the servers that give them out. */
export const accessLimits = {
  /** Access tokens that are known again without a look into the store, or at their signature. */
  knownTokens: 10_000,
  /** Berth's own tokens of one tenant, those that have ended among them until others need their room. */
  tokensPerTenant: 10_000,
  /** How long a browser stays signed in. */
  signInMs: 12 * 3_600_000,
  /** How long the signature of an access token is believed without looking at it again. */
  verifiedTokenMs: 60_000,
  /** Between two looks for a key of an authorization server that was not there. */
  jwksCooldownMs: 30_000,
  /** After which the keys of an authorization server are read again. */
  jwksMaxAgeMs: 600_000,
  /** One request to an authorization server, and its answer. */
  issuerMs: 5_000,
  issuerBytes: 256 * 1024,
  /** Requests with access tokens that wait at once for the keys of one authorization server. */
  issuerWaiting: 256,
  /** Authorization servers whose keys are kept, one of each tenant. */
  issuers: 256,
};
