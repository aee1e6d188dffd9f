import type { Socket } from "node:net";
import { startDirectly } from "./starter.ts";
import type { StarterAnswer, StarterQuestion } from "./apart.ts";

/**
 * The starter's process: it starts what it is asked to, hands over the pipes, and tells when each process has ended.
 * It ends when its stdin does, which is when whoever asks does.
 */
process.on("message", (question: StarterQuestion) => void carryOut(question));
// Of a channel that ends while a pipe is on its way over it, Node tells nothing.
process.stdin.resume().on("close", () => process.exit(0));
// A terminal tells all of its processes at once. Who serves may need this one until it has ended what runs.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
answer({ id: 0 });

async function carryOut({ id, request }: StarterQuestion): Promise<void> {
  try {
    const starting = startDirectly(request);
    const { pid, pipes, exited } = await starting;
    // What is written from now on is for whoever gets the pipe, and nothing else is done in this turn.
    for (const pipe of pipes) stopReading(pipe as Socket | undefined);
    answer({ id, pid });
    for (const [descriptor, pipe] of pipes.entries()) if (pipe) answer({ id, descriptor }, pipe as Socket);
    answer({ id, isComplete: true });
    answer({ id, exit: await exited });
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    answer({ id, error: { message, ...(code !== undefined && { code }) } });
  }
}

/** Node begins to read every pipe that it makes, and has no public way to end that. */
function stopReading(pipe: Socket | undefined): void {
  (pipe as { _handle?: { readStop(): void } } | undefined)?._handle?.readStop();
}

function answer(message: StarterAnswer, pipe?: Socket): void {
  if (process.connected) process.send!(message, pipe, {}, () => {});
}
