import type { Json } from "../lib/json.ts";

/**
 * How a call may end besides with content: with an error that says whether to try again, or with a question. A leaf:
 * guests, scripts and the servers of others say it in the same words (seed 002). How it is written as text is the
 * transitional envelope (`envelope.ts`); the protocol's own way are input requests.
 */
export type Outcome =
  | { readonly type: "success"; readonly content: string }
  | {
      readonly type: "error";
      readonly message: string;
      /** What led to it, outermost first. */
      readonly trace: readonly string[];
      /** The same call may succeed when it is made again. */
      readonly transient: boolean;
    }
  | { readonly type: "needs_input"; readonly question: Question };

export interface Question {
  /** What the answer comes back under: not empty, without dots. */
  readonly id: string;
  readonly text: string;
  readonly answerType: AnswerType;
  /** What counts as the answer where nobody can be asked. */
  readonly default?: Json;
}

export type AnswerType =
  | { readonly type: "boolean" }
  | { readonly type: "text" }
  | { readonly type: "select"; readonly options: readonly string[] };

/** What is shown of an error: what went wrong, and under it what led to that. */
export function sayError({ message, trace }: Extract<Outcome, { type: "error" }>): string {
  return [message, ...trace.map((line) => `  ${line}`)].join("\n");
}
