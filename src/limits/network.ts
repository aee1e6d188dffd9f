/** The limits of guests' use of the network. */
export const networkLimits = {
  /** One fetch of a guest, including both bodies. */
  fetchMs: 60_000,
  fetchRequestBytes: 16 * 1024 * 1024,
  /** A body as the guest gets it; it may have arrived compressed. */
  fetchResponseBytes: 16 * 1024 * 1024,
  /** All fetches of one call, consecutive or concurrent. */
  fetchesPerCall: 100,
  /** Concurrent fetches of all calls of a server together. */
  openFetches: 32,
};
