const due: (() => void)[] = [];

/**
 * Runs `task` at the end of this event-loop turn, after everything that is ready has been processed, so that work of
 * one turn is done together. One immediate serves all tasks.
 */
export function atEndOfTurn(task: () => void): void {
  if (due.push(task) === 1) setImmediate(endTurn);
}

function endTurn(): void {
  for (const task of due.splice(0)) task();
}
