import type { InputRequest } from "../../host/catalog.ts";
import { BerthError } from "../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";

export type AskedMethods = Readonly<Record<string, InputRequest["method"]>>;

/**
 * The answers in `inputResponses` to what was asked. Keys that nobody asked for are ignored; `asked` is undefined
 * when the request says nothing of an earlier round, and then every key may be one. Throws `invalid_params` for
 * what is no answer at all, naming each key.
 */
export function readInputResponses(inputResponses: unknown, asked?: AskedMethods): JsonObject {
  if (!isObject(inputResponses)) throw new BerthError("invalid_params", '"inputResponses" must be an object');
  const known = Object.entries(inputResponses).filter(([key]) => !asked || Object.hasOwn(asked, key));
  const problems = known.flatMap(([key, value]) => {
    const wanted = asked ? expected[asked[key]!] : anyAnswer;
    return wanted.matches(value) ? [] : `${JSON.stringify(key)} must be ${wanted.shape}`;
  });
  if (problems.length > 0) throw new BerthError("invalid_params", `"inputResponses": ${problems.join("; ")}`);
  return Object.fromEntries(known as [string, Json][]);
}

interface AnswerShape {
  readonly shape: string;
  readonly matches: (value: unknown) => boolean;
}

/** 2026-07-28 `schema.ts`: `ElicitResult`, `CreateMessageResult`, `ListRootsResult`. */
const expected: Readonly<Record<InputRequest["method"], AnswerShape>> = {
  "elicitation/create": {
    shape: '{"action": "accept" | "decline" | "cancel", "content"?: an object of plain values}',
    matches: (value) =>
      isObject(value) &&
      ["accept", "decline", "cancel"].includes(value["action"] as string) &&
      (value["content"] === undefined ||
        (isObject(value["content"]) && Object.values(value["content"]).every(isPlainValue))),
  },
  "sampling/createMessage": {
    shape: '{"role": "user" | "assistant", "content": a content block or several, "model": a text}',
    matches: (value) =>
      isObject(value) &&
      ["user", "assistant"].includes(value["role"] as string) &&
      [value["content"]].flat().every((block) => isObject(block) && typeof block["type"] === "string") &&
      typeof value["model"] === "string",
  },
  "roots/list": {
    shape: '{"roots": [{"uri": a text, "name"?: a text}, …]}',
    matches: (value) =>
      isObject(value) &&
      Array.isArray(value["roots"]) &&
      value["roots"].every((root) => isObject(root) && typeof root["uri"] === "string"),
  },
};

const anyAnswer: AnswerShape = {
  shape: "an answer to an elicitation, to a sampling request or to a request for roots",
  matches: (value) => Object.values(expected).some(({ matches }) => matches(value)),
};

function isPlainValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((each) => typeof each === "string");
  return ["string", "number", "boolean"].includes(typeof value);
}
