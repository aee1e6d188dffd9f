/** Work of the serving process that takes longer than this at a stretch lets calls of others have a turn. */
const STRETCH_MS = 2;

/**
 * What a long loop awaits at each step: most of the time nothing, and now and then the end of the event loop's turn,
 * so that many small steps never become one long pause.
 */
export function turnTaker(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < STRETCH_MS) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}
