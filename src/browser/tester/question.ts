import type { JsonSchema } from "./form/json-schema.ts";

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
