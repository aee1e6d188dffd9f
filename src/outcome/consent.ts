import { isObject, type Json, type JsonObject } from "../lib/json.ts";

/**
 * A user's consent to exactly one call, as a question and its answer: the key that identifies them, and which answers
 * count as consent. Independent of who seals the key, and of what it permits.
 */
export const CONSENT_KEY = "consent:";

/** True for the key of a consent, including one to a call that a redirect led to. */
export function isConsentKey(key: string): boolean {
  return /^(?:redirect\.)*consent:/.test(key);
}

/** Its field has no default, so that a client that fills in defaults does not consent. */
export function consentQuestion(message: string): {
  readonly method: "elicitation/create";
  readonly params: JsonObject;
} {
  const field = {
    type: "boolean",
    title: "Run this call",
    description: "Yes for this one call, with exactly these arguments.",
  };
  const requestedSchema = { type: "object", properties: { [FIELD]: field }, required: [FIELD] };
  return { method: "elicitation/create", params: { mode: "form", message, requestedSchema } };
}

/** Anything but an explicit yes is no consent. */
export function readConsent(answer: Json | undefined): "given" | "declined" | "cancelled" {
  if (!isObject(answer) || answer["action"] === "cancel") return "cancelled";
  const { content } = answer;
  return answer["action"] === "accept" && isObject(content) && content[FIELD] === true ? "given" : "declined";
}

const FIELD = "consent";
