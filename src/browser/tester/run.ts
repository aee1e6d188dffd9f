import type { CallToolResult, GetPromptResult, Progress, ReadResourceResult } from "@modelcontextprotocol/client";
import { explain, type Explained } from "./explain.ts";
import type { JsonSchema } from "./form/validation.ts";
import { CALL_TIMEOUT_MS, SHOWN_LINES } from "./limits.ts";
import { Store } from "./store.ts";
import type { Target } from "./target.ts";

/** The outcome of one request to the server. */
export type Outcome =
  | { readonly kind: "tool"; readonly result: CallToolResult }
  | { readonly kind: "resource"; readonly result: ReadResourceResult }
  | { readonly kind: "prompt"; readonly result: GetPromptResult }
  | { readonly kind: "failed"; readonly error: Explained }
  | { readonly kind: "cancelled" };

export interface LogLine {
  readonly level: string;
  readonly logger?: string;
  readonly data: unknown;
}

export interface Run {
  /** The subject of the request: `echo`, a URI. */
  readonly title: string;
  /** The arguments of a tool. */
  readonly args?: Record<string, unknown>;
  readonly startedAt: number;
  readonly progress: readonly Progress[];
  readonly log: readonly LogLine[];
  readonly questions: readonly Pending[];
  /** Set when it is over. */
  readonly outcome?: Outcome;
  readonly elapsedMs?: number;
}

export interface Pending {
  readonly number: number;
  readonly question: Question;
  readonly answer: (answer: Answer) => void;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onprogress: (event: Progress) => void;
  readonly timeout: number;
  readonly resetTimeoutOnProgress: true;
}

/**
 * The runners of what a server offers, each with its own last result. One of them runs at a time: in the older era,
 * what a server asks and logs does not say which request it belongs to.
 */
export class Runners {
  readonly active = new Store<Runner | undefined>(undefined);
  readonly #runners = new Map<string, Runner>();

  of({ kind, name = "" }: Target): Runner {
    const key = `${kind} ${name}`;
    let runner = this.#runners.get(key);
    if (!runner) this.#runners.set(key, (runner = new Runner(this.active)));
    return runner;
  }

  /** Clears every request. */
  forget(): void {
    for (const runner of this.#runners.values()) runner.forget();
  }
}

/** Carries out one request at a time, and holds everything received for it meanwhile. */
export class Runner {
  readonly run = new Store<Run | undefined>(undefined);
  /** The one that runs now. */
  readonly active: Store<Runner | undefined>;
  #abort: AbortController | undefined;
  #asked = 0;

  constructor(active: Store<Runner | undefined>) {
    this.active = active;
  }

  /** False while this or another one runs. */
  get isFree(): boolean {
    return this.active.value === undefined;
  }

  async start(
    title: string,
    work: (options: RunOptions) => Promise<Outcome>,
    args?: Record<string, unknown>,
  ): Promise<void> {
    if (!this.isFree) return;
    this.active.set(this);
    const abort = new AbortController();
    this.#abort = abort;
    const startedAt = performance.now();
    this.run.set({ title, ...(args && { args }), startedAt, progress: [], log: [], questions: [] });
    const options: RunOptions = {
      signal: abort.signal,
      onprogress: (event) => {
        if (!OWN_PROGRESS.test(event.message ?? ""))
          this.#change(({ progress }) => ({ progress: append(progress, event) }));
      },
      timeout: CALL_TIMEOUT_MS,
      resetTimeoutOnProgress: true,
    };
    let outcome: Outcome;
    try {
      outcome = await work(options);
    } catch (error) {
      outcome = abort.signal.aborted ? { kind: "cancelled" } : { kind: "failed", error: explain(error) };
    }
    this.#change(() => ({ outcome, questions: [], elapsedMs: performance.now() - startedAt }));
    if (this.active.value === this) this.active.set(undefined);
  }

  cancel(): void {
    const waiting = this.run.value?.questions ?? [];
    this.#abort?.abort();
    for (const { answer } of waiting) answer({ action: "cancel" });
  }

  /** Clears the last request. */
  forget(): void {
    this.cancel();
    this.run.set(undefined);
  }

  log(line: LogLine): void {
    this.#change(({ log }) => ({ log: append(log, line) }));
  }

  /** Asks the person. Cancels a question that nothing waits for any more. */
  ask(question: Question): Promise<Answer> {
    if (this.active.value !== this || this.#abort?.signal.aborted) return Promise.resolve({ action: "cancel" });
    return new Promise((resolve) => {
      const pending: Pending = {
        number: ++this.#asked,
        question,
        answer: (answer) => {
          this.#change(({ questions }) => ({ questions: questions.filter((other) => other !== pending) }));
          resolve(answer);
        },
      };
      this.#change(({ questions }) => ({ questions: [...questions, pending] }));
    });
  }

  #change(change: (run: Run) => Partial<Run>): void {
    const run = this.run.value;
    if (run && run.outcome === undefined) this.run.set({ ...run, ...change(run) });
  }
}

/**
 * The client's own progress, reported as if it were the server's: that a question is being answered, which is visible
 * anyway.
 */
const OWN_PROGRESS = /^Fulfilling input required by '/;

function append<Item>(items: readonly Item[], item: Item): Item[] {
  return [...items.slice(-(SHOWN_LINES - 1)), item];
}

/** A server's question to the person who called it, in either era. */
export type Question =
  | { readonly kind: "form"; readonly message: string; readonly schema: JsonSchema }
  | { readonly kind: "url"; readonly message: string; readonly url: string }
  | {
      readonly kind: "sampling";
      readonly systemPrompt?: string;
      readonly messages: readonly { readonly role: string; readonly content: unknown }[];
      readonly maxTokens: number;
    };

export type Answer =
  | { readonly action: "accept"; readonly content?: Readonly<Record<string, unknown>>; readonly text?: string }
  | { readonly action: "decline" }
  | { readonly action: "cancel" };
