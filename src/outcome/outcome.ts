import type { Json } from "../lib/json.ts";

/**
 * The ways a call may end other than with content: an error that says if a retry may succeed, or a question. A leaf
 * module, shared by guests, scripts and upstreams. The text form of an outcome is the transitional envelope
 * (`envelope.ts`); the protocol's own form is an input request.
 */
export type Outcome =
  | { readonly type: "success"; readonly content: string }
  | {
      readonly type: "error";
      readonly message: string;
      /** Outermost cause first. */
      readonly trace: readonly string[];
      readonly transient: boolean;
    }
  | { readonly type: "needs_input"; readonly question: Question };

export interface Question {
  /** Identifies the answer: not empty, without dots. */
  readonly id: string;
  readonly text: string;
  readonly answerType: AnswerType;
  /** The answer if the user cannot be asked. */
  readonly default?: Json;
}

export type AnswerType =
  | { readonly type: "boolean" }
  | { readonly type: "text" }
  | { readonly type: "select"; readonly options: readonly string[] };

/** The text of an error: its message, and its causes below it. */
export function formatError({ message, trace }: Extract<Outcome, { type: "error" }>): string {
  return [message, ...trace.map((line) => `  ${line}`)].join("\n");
}
