import type { Json } from "../lib/json.ts";

/**
 * The ways a call may end besides with content: an error that says whether to try again, or a question. A leaf: guests,
 * scripts and upstreams use the same words (seed 002). Its text form is the transitional envelope (`envelope.ts`); the
 * protocol's own form is an input request.
 */
export type Outcome =
  | { readonly type: "success"; readonly content: string }
  | {
      readonly type: "error";
      readonly message: string;
      /** The causes, outermost first. */
      readonly trace: readonly string[];
      /** True when a repeated call may succeed. */
      readonly transient: boolean;
    }
  | { readonly type: "needs_input"; readonly question: Question };

export interface Question {
  /** Identifies the answer: not empty, without dots. */
  readonly id: string;
  readonly text: string;
  readonly answerType: AnswerType;
  /** The answer if nobody can be asked. */
  readonly default?: Json;
}

export type AnswerType =
  | { readonly type: "boolean" }
  | { readonly type: "text" }
  | { readonly type: "select"; readonly options: readonly string[] };

/** The text of an error: the message, and its causes below it. */
export function sayError({ message, trace }: Extract<Outcome, { type: "error" }>): string {
  return [message, ...trace.map((line) => `  ${line}`)].join("\n");
}
