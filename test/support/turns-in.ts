/** How often the event loop has turned until `work` is done. */
export async function turnsIn(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    if (isDone) return;
    turns += 1;
    setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  isDone = true;
  return turns;
}
