/**
 * Resolves with the first of these signals; a second one ends the process at once. Call it before anything tells the
 * outside that it may send one: until then a signal ends the process with nothing tidied up.
 */
export function signalled(signals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM"]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of signals) process.once(signal, resolve);
  });
}
