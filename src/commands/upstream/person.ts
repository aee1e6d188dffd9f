import type { Ask } from "../../upstream/request.ts";
import { toAbortSignal } from "../../lib/cancellation.ts";
import { askPerson } from "../ask-person.ts";
import { Terminal } from "../terminal.ts";
import type { CallClock } from "./call-clock.ts";

export interface Person {
  readonly ask: Ask;
  close(): void;
}

/** The person at the terminal, whose time for an answer does not count. Undefined where nobody can be asked. */
export function personAtTerminal(clock: CallClock, interrupted: AbortSignal, before: () => void): Person | undefined {
  const terminal = Terminal.open();
  return (
    terminal && {
      ask: (question, signal) => {
        before();
        const either = AbortSignal.any([interrupted, ...(signal ? [toAbortSignal(signal)] : [])]);
        return clock.asking(() => askPerson(terminal, question, either));
      },
      close: () => terminal.close(),
    }
  );
}
