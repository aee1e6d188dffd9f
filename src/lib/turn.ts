const due: (() => void)[] = [];

/**
 * Does `task` once the event loop's turn has taken in all that is ready, so that what belongs to one turn is done at
 * once. One immediate serves all tasks.
 */
export function atEndOfTurn(task: () => void): void {
  if (due.push(task) === 1) setImmediate(endTurn);
}

function endTurn(): void {
  for (const task of due.splice(0)) task();
}
