import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { answersById, joinAnswers, refusal } from "../../src/outcome/answers.ts";
import { contextMeta, readContextMeta } from "../../src/outcome/context.ts";
import { ENVELOPE_UNITS_MAX, ENVELOPE_VALUES_MAX, parseEnvelope } from "../../src/outcome/envelope.ts";
import type { AnswerType, Outcome } from "../../src/outcome/outcome.ts";
import { defaultAnswer, toElicitation, questionKey, readAnswer, readQuestionKey } from "../../src/outcome/question.ts";
import { unwrapResult } from "../../src/outcome/unwrap.ts";
import {
  array,
  assert as check,
  boolean,
  constant,
  json,
  jsonValue,
  oneof,
  property,
  record,
  string,
  type Arbitrary,
} from "../support/fast-check.ts";

const answerTypes: Arbitrary<AnswerType> = oneof(
  constant<AnswerType>({ type: "boolean" }),
  constant<AnswerType>({ type: "text" }),
  array(string(), { minLength: 1 }).map((options): AnswerType => ({ type: "select", options })),
);
const outcomes: Arbitrary<Outcome> = oneof(
  string().map((content): Outcome => ({ type: "success", content })),
  record(
    { type: constant("error" as const), message: string(), trace: array(string()), transient: boolean() },
    { noNullPrototype: true },
  ),
  record(
    {
      id: string({ minLength: 1 }).filter((id) => !id.includes(".")),
      text: string(),
      answerType: answerTypes,
      default: oneof(string(), boolean()),
    },
    { requiredKeys: ["id", "text", "answerType"], noNullPrototype: true },
  ).map((question): Outcome => ({ type: "needs_input", question })),
);

function writeEnvelope(outcome: Outcome): string {
  if (outcome.type !== "needs_input") return JSON.stringify(outcome);
  const { answerType: answer_type, ...question } = outcome.question;
  return JSON.stringify({ type: "needs_input", question: { ...question, answer_type } });
}

test("every envelope gives its outcome back (P1)", () => {
  check(property(outcomes, (outcome) => assert.deepEqual(parseEnvelope(writeEnvelope(outcome)), outcome)));
});

test("a text that only looks like an envelope stays what it is (P1)", () => {
  const looksLike = [
    '{"type":"success"}',
    '{"type":"success","content":1}',
    '{"type":"success","content":"x","more":true}',
    '{"type":"error"}',
    '{"type":"error","message":"x","trace":"y"}',
    '{"type":"needs_input","question":{"id":"","text":"?","answer_type":{"type":"text"}}}',
    '{"type":"needs_input","question":{"id":"a.b","text":"?","answer_type":{"type":"text"}}}',
    '{"type":"needs_input","question":{"id":"a","text":"?","answer_type":{"type":"select","options":[]}}}',
    '{"type":"needs_input","question":{"id":"a","text":"?","answer_type":{"type":"number"}}}',
    '{"type":"Success","content":"x"}',
    '[{"type":"success","content":"x"}]',
    'Here it is: {"type":"success","content":"x"}',
    '{"type":"success","content":"x"} {"type":"success","content":"x"}',
    `{"type":"success","content":"${"x".repeat(ENVELOPE_UNITS_MAX)}"}`,
    `{"type":"error","message":"m","trace":[${Array(ENVELOPE_VALUES_MAX).fill('""').join()}]}`,
  ];
  for (const text of looksLike) assert.equal(parseEnvelope(text), undefined, text.slice(0, 100));
  check(property(json(), (text) => parseEnvelope(text) === undefined));
  check(property(string(), (text) => parseEnvelope(text) === undefined));
});

test("question types of before are understood (P1)", () => {
  const question = (answerType: unknown): string =>
    JSON.stringify({ type: "needs_input", question: { id: "a", text: "?", answer_type: answerType, default: null } });
  const typeOf = (answerType: unknown): unknown => {
    const outcome = parseEnvelope(question(answerType));
    return outcome?.type === "needs_input" && outcome.question.answerType;
  };
  assert.deepEqual(typeOf("Boolean"), { type: "boolean" });
  assert.deepEqual(typeOf("Text"), { type: "text" });
  assert.deepEqual(typeOf({ Select: { options: ["a"] } }), { type: "select", options: ["a"] });
});

test("only a result of exactly one text is unwrapped (P1)", () => {
  const text = { type: "text", text: writeEnvelope({ type: "success", content: "yes" }) };
  const warn = (): void => assert.fail("nothing to warn of");
  assert.deepEqual(unwrapResult({ content: [text] }, warn), { type: "success", content: "yes" });
  const image = { type: "image", data: "", mimeType: "image/png" };
  for (const content of [[], [text, text], [text, image], [image], [{ ...text, type: "other" }]]) {
    assert.equal(unwrapResult({ content }, warn), undefined);
  }
  assert.equal(unwrapResult({ content: [text], structuredContent: {} }, warn), undefined);
});

test("isError goes before an envelope that says success, with a warning (P2)", () => {
  const warnings: string[] = [];
  const of = (outcome: Outcome): Outcome | undefined => {
    const content = [{ type: "text", text: writeEnvelope(outcome) }];
    return unwrapResult({ content, isError: true }, (message) => warnings.push(message));
  };
  const failed: Outcome = { type: "error", message: "no", trace: ["why"], transient: true };
  assert.deepEqual(of(failed), failed);
  assert.equal(warnings.length, 0);
  assert.deepEqual(of({ type: "success", content: "yes" }), {
    type: "error",
    message: "yes",
    trace: [],
    transient: false,
  });
  assert.equal(warnings.length, 1);
});

test("a context travels in two keys, and in none while it says nothing (P3)", () => {
  const plain = { name: "search", arguments: { q: 1 }, answers: {}, options: {}, action: "run" as const };
  assert.deepEqual(contextMeta(plain), {});
  const meta = contextMeta({ ...plain, answers: { sure: true }, options: { fast: true }, root: "/work" });
  assert.deepEqual(meta, {
    "computer.jp/tool": { name: "search", arguments: { q: 1 }, answers: { sure: true }, options: { fast: true } },
    "computer.jp/context": { action: "run", root: "/work" },
  });
  assert.deepEqual(readContextMeta(meta), {
    answers: { sure: true },
    options: { fast: true },
    action: "run",
    root: "/work",
  });
});

test("what others put under the keys never makes a call fail (P3)", () => {
  const anything = record({ "computer.jp/tool": jsonValue(), "computer.jp/context": jsonValue() });
  check(property(oneof(anything, jsonValue()), (meta) => typeof readContextMeta(meta) === "object"));
  assert.deepEqual(readContextMeta({ "computer.jp/context": { action: "Run", root: 1 } }), { action: "run" });
});

test("a question becomes a form, and the form's answer its answer (P4)", () => {
  const answers = oneof(boolean(), string());
  check(
    property(answerTypes, answers, (answerType, value) => {
      const schema = toElicitation({ id: "a", text: "?", answerType })["requestedSchema"] as JsonObject;
      const type = ((schema["properties"] as JsonObject)["answer"] as JsonObject)["type"];
      const answer = readAnswer({ action: "accept", content: { answer: value } }, { answerType });
      const isOne = typeof value === type && (answerType.type !== "select" || answerType.options.includes(`${value}`));
      assert.deepEqual(answer, isOne ? { kind: "given", value } : { kind: "none" });
    }),
  );
  const text = { answerType: { type: "text" as const } };
  assert.deepEqual(readAnswer({ action: "decline" }, text), { kind: "declined" });
  assert.deepEqual(readAnswer({ action: "cancel" }, text), { kind: "cancelled" });
  assert.deepEqual(readAnswer("accept", text), { kind: "none" });
});

test("a default that is no answer is not offered (P4)", () => {
  const schemaOf = (answerType: AnswerType, otherwise: unknown): unknown =>
    toElicitation({ id: "a", text: "?", answerType, default: otherwise as string })["requestedSchema"];
  assert.match(JSON.stringify(schemaOf({ type: "select", options: ["a"] }, "a")), /"default":"a"/);
  assert.doesNotMatch(JSON.stringify(schemaOf({ type: "select", options: ["a"] }, "b")), /default/);
});

test("the key of a question says its id, and what it takes for an answer (P4)", () => {
  const ids = string({ minLength: 1 }).filter((id) => !id.includes("."));
  const same = property(ids, answerTypes, (id, answerType) => {
    assert.deepEqual(readQuestionKey(questionKey({ id, answerType })), { id, answerType });
  });
  check(same);
  const options = Array.from({ length: 1000 }, (_, index) => `option ${index}`);
  const long = { id: "x", answerType: { type: "select" as const, options } };
  assert.deepEqual(readQuestionKey(questionKey(long)), { id: "x", answerType: { type: "text" } });
  check(property(string(), (key) => void readQuestionKey(`question.${key}`)));
  for (const key of [
    "elicitation-1",
    "upstream-1:1",
    "question.",
    "question.a",
    "question.a.number",
    "question.a.select[1",
    `question.a.select[${"1,".repeat(1_000)}1]`,
  ]) {
    assert.equal(readQuestionKey(key), undefined, key);
  }
});

test("answers accumulate by id, the later ones over the earlier and over those of the caller (P4)", () => {
  const key = questionKey({ id: "sure", answerType: { type: "boolean" } });
  const accept = (answer: boolean | string): JsonObject => ({ action: "accept", content: { answer } });
  const context = { answers: { sure: "from the caller", more: 1 } };
  const answers = joinAnswers({ [key]: accept(false), "elicitation-1": {} }, { [key]: accept(true) });
  assert.deepEqual(Object.keys(answers), ["elicitation-1", key]);
  assert.deepEqual(answersById({ answers, context }), { sure: true, more: 1 });
  assert.deepEqual(answersById({ answers: { [key]: accept("maybe") } }), {});
  assert.equal(refusal("t", answers), undefined);
  assert.match(refusal("t", { ...answers, [key]: { action: "decline" } })!, /declined to answer "sure"/);
  assert.equal(refusal("t", { "elicitation-1": { action: "decline" } }), undefined);
});

test("a default counts only where it is an answer that the question allows (P4)", () => {
  const question = { id: "a", text: "?", answerType: { type: "boolean" as const } };
  assert.deepEqual(defaultAnswer(toElicitation({ ...question, default: false })), {
    action: "accept",
    content: { answer: false },
  });
  assert.equal(defaultAnswer(toElicitation({ ...question, default: "no" })), undefined);
  assert.equal(defaultAnswer(toElicitation(question)), undefined);
});
