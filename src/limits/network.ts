/** What guests may ask of the network. */
export const networkLimits = {
  /** One fetch of a guest, both bodies included. */
  fetchMs: 60_000,
  fetchRequestBytes: 16 * 1024 * 1024,
  /** Of a body as the guest gets it, which may have come compressed. */
  fetchResponseBytes: 16 * 1024 * 1024,
  /** All of one call, one after the other or at once. */
  fetchesPerCall: 100,
  /** At once, all calls of a server together. */
  openFetches: 32,
};
