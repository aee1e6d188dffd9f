const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** One Ctrl-C may come twice: from the terminal, and from npm, which passes it on. */
const ONE_SIGNAL_MS = 500;

/**
 * Resolves with the first signal to end; a further one ends the process at once. SIGHUP, from a closing terminal, is
 * one of them unless `signals` leaves it out. Call it before anything tells the outside that it may send one: until then
 * a signal ends the process without cleanup.
 */
export function signalled(signals: readonly NodeJS.Signals[] = SIGNALS): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const onSignal = (first: NodeJS.Signals): void => {
      resolve(first);
      setTimeout(() => {
        for (const signal of signals) process.off(signal, onSignal);
      }, ONE_SIGNAL_MS).unref();
    };
    for (const signal of signals) process.on(signal, onSignal);
  });
}
