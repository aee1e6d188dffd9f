import assert from "node:assert/strict";
import { test } from "node:test";
import { answerForm } from "../../../../src/features/native/commands/answer-form.ts";
import type { JsonObject } from "../../../../src/lib/json.ts";

test("prints questions and the option that answers them, safe to paste into a shell", () => {
  const properties: JsonObject = {
    color: { enum: ["red", "it's"], title: "Color" },
    size: { oneOf: [{ const: "s", title: "Small" }, { const: "m" }] },
    count: { type: "integer", default: 3 },
    sure: { type: "boolean", description: "Really?\u001b[2J" },
  };
  const params: JsonObject = { message: "Which\u001b[2J?", requestedSchema: { type: "object", properties } };
  const page: JsonObject = { mode: "url", message: "Sign in", url: "https://a.example" };
  const requests = {
    "a'b": { method: "elicitation/create", params },
    p: { method: "elicitation/create", params: page },
  };
  const form = answerForm(requests, { earlier: { action: "decline" } })!;
  const content = `{"color":"red","size":"s","count":3,"sure":false}`;
  assert.deepEqual(form.split("\n"), [
    "  Which?",
    '    color: "red" or "it\'s", Color',
    '    size: "s" or "m"',
    "    count: integer",
    "    sure: boolean, Really?\ufffd[2J",
    "  Sign in",
    "  https://a.example",
    "  ",
    `  --answers '{"earlier":{"action":"decline"},"a'\\''b":{"action":"accept","content":${content}},"p":{"action":"accept"}}'`,
  ]);
  assert.equal(answerForm({ s: { method: "sampling/createMessage", params: {} } }, {}), undefined);
});
