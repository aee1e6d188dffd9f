const tasks: (() => void)[] = [];

/**
 * Does `task` once the event-loop turn has taken in all that is ready. Every process's frames of one turn leave in
 * one write this way, with one immediate for all processes.
 */
export function atEndOfTurn(task: () => void): void {
  if (tasks.push(task) === 1) setImmediate(runTasks);
}

function runTasks(): void {
  const due = tasks.splice(0);
  for (const task of due) task();
}
